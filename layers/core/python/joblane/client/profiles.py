"""Profiles: which API to use and with which credential.

`$XDG_CONFIG_HOME/joblane/config.toml` (`~/.config` by default) holds profiles:

    [profiles.default]
    url = "https://jobs.acme.example"

    [profiles.nightly]                      # a machine; only the owner may read the file
    url = "https://jobs.acme.example"
    client_id = "4h57kf..."
    client_secret = "..."

The first of these that names an API is used, with its token only: `--profile`, `--url`,
JOBLANE_URL, JOBLANE_PROFILE, the profile `default`.
"""

import json
import os
import re
import time
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from joblane.client.credentials import (
    Credential,
    MachineCredentials,
    MachineLogin,
    PersonLogin,
    StaticToken,
    token_file_name,
)
from joblane.client.errors import ConfigError
from joblane.client.tokens import OTHERS, TokenFile
from joblane.client.transport import Certificate, base_url

DEFAULT = "default"

KEYS = ("url", "client_id", "client_secret", "certificate", "certificate_key")

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,39}")


@dataclass(frozen=True, slots=True)
class ConnectionOptions:
    """Options of the command line."""

    url: str | None = None
    token: str | None = field(default=None, repr=False)
    profile: str | None = None


@dataclass(frozen=True, slots=True)
class Endpoint:
    """An API and the credential for it."""

    url: str
    credential: Credential
    token_file: TokenFile
    """Where a login is stored."""
    certificate: Certificate | None
    profile: str | None
    """None when the environment or the command line named the API."""
    profile_exists: bool
    """Whether the file contains the profile."""


def find_endpoint(
    options: ConnectionOptions,
    environ: Mapping[str, str] = os.environ,
    clock: Callable[[], float] = time.time,
) -> Endpoint:
    """Find the API and the credential. Raises `ConfigError`."""
    profiles = read(config_file(environ))
    name = options.profile
    if name is None and options.url is None and not environ.get("JOBLANE_URL"):
        name = environ.get("JOBLANE_PROFILE") or DEFAULT
    if name is None:
        return _of_environment(options, environ, clock)
    if not _NAME.fullmatch(name):
        raise ConfigError(f"{name!r} is not a valid profile name; use letters, digits, - and _")
    return _of_profile(name, profiles.get(name), options, environ, clock)


def config_file(environ: Mapping[str, str]) -> Path:
    """Path of the configuration file."""
    base = environ.get("XDG_CONFIG_HOME", "")
    home = Path(base) if base.startswith("/") else Path(environ.get("HOME", "~")) / ".config"
    return home.expanduser() / "joblane" / "config.toml"


def read(path: Path) -> dict[str, dict[str, str]]:
    """Read the profiles; empty without a file. Raises `ConfigError` naming the invalid key."""
    try:
        with path.open("rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            found = tomllib.load(file)
    except FileNotFoundError:
        return {}
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{path} is not TOML: {error}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} cannot be read: {error}") from None
    for key in found:
        if key != "profiles":
            raise ConfigError(f"{path}: unknown key {key}; allowed: [profiles.NAME]")
    profiles = found.get("profiles", {})
    if not isinstance(profiles, dict):
        raise ConfigError(f"{path}: profiles must be tables [profiles.NAME]")
    return {name: _profile(path, name, table, mode) for name, table in profiles.items()}


def add(environ: Mapping[str, str], name: str, url: str) -> Path:
    """Append a profile to the file; its other content is kept."""
    path = config_file(environ)
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "a", encoding="utf-8") as file:
            gap = "\n" if file.tell() else ""
            file.write(f"{gap}[profiles.{name}]\nurl = {json.dumps(url)}\n")
    except OSError as error:
        raise ConfigError(f"{path} cannot be written: {error.strerror}") from None
    return path


def _profile(path: Path, name: str, table: Any, mode: int) -> dict[str, str]:  # noqa: ANN401 - TOML
    where = f"{path}: profiles.{name}"
    if not isinstance(table, dict):
        raise ConfigError(f"{where} must be a table")
    for key, value in table.items():
        if key not in KEYS:
            raise ConfigError(f"{where}: unknown key {key}; allowed: {', '.join(KEYS)}")
        if not isinstance(value, str) or not value:
            raise ConfigError(f"{where}.{key} must be a non-empty string")
    if "url" not in table:
        raise ConfigError(f"{where}.url is missing")
    if "client_secret" in table and mode & OTHERS:
        raise ConfigError(
            f"{path} contains a secret and is readable by other users; run chmod 600 on it "
            "and replace the secret"
        )
    return table


def _of_environment(
    options: ConnectionOptions, environ: Mapping[str, str], clock: Callable[[], float]
) -> Endpoint:
    url = base_url(environ.get("JOBLANE_URL", "") if options.url is None else options.url)
    token = options.token or environ.get("JOBLANE_TOKEN")
    client_id = environ.get("JOBLANE_CLIENT_ID", "")
    certificate = _certificate(
        environ.get("JOBLANE_CERTIFICATE"), environ.get("JOBLANE_CERTIFICATE_KEY")
    )
    file = TokenFile(environ, token_file_name(url, client_id))
    credential = _credential(
        url, token, client_id, environ.get("JOBLANE_CLIENT_SECRET"), file, certificate, clock
    )
    return Endpoint(url, credential, file, certificate, None, profile_exists=False)


def _of_profile(
    name: str,
    profile: Mapping[str, str] | None,
    options: ConnectionOptions,
    environ: Mapping[str, str],
    clock: Callable[[], float],
) -> Endpoint:
    if profile is None:
        if options.url is None:
            raise ConfigError(_missing(name, options, environ))
        profile = {"url": options.url}
        exists = False
    else:
        exists = True
    url = base_url(profile["url"])
    if options.url is not None and base_url(options.url) != url:
        raise ConfigError(f"the profile {name} is for {url}; use another --profile or no --url")
    certificate = _certificate(profile.get("certificate"), profile.get("certificate_key"))
    file = TokenFile(environ, name)
    credential = _credential(
        url,
        options.token,
        profile.get("client_id", ""),
        profile.get("client_secret") or environ.get("JOBLANE_CLIENT_SECRET"),
        file,
        certificate,
        clock,
    )
    return Endpoint(url, credential, file, certificate, name, profile_exists=exists)


def _missing(name: str, options: ConnectionOptions, environ: Mapping[str, str]) -> str:
    if options.profile or environ.get("JOBLANE_PROFILE"):
        return (
            f"no profile {name} in {config_file(environ)}; "
            f"create it with: joblane --profile {name} --url URL login"
        )
    return (
        "JOBLANE_URL is not set and there is no profile; create one with: joblane --url URL login "
        "(for the local deployment: . .local/env)"
    )


def _credential(  # noqa: PLR0913, PLR0917 - the possible sources of a token
    url: str,
    token: str | None,
    client_id: str,
    secret: str | None,
    file: TokenFile,
    certificate: Certificate | None,
    clock: Callable[[], float],
) -> Credential:
    if token:
        return StaticToken(token)
    if client_id and secret:
        return MachineLogin(url, file, clock, MachineCredentials(client_id, secret), certificate)
    if client_id:
        raise ConfigError(f"the client {client_id} has no secret; set JOBLANE_CLIENT_SECRET")
    if file.path.exists():
        return PersonLogin(url, file, clock)
    return StaticToken(None)


def _certificate(path: str | None, key_path: str | None) -> Certificate | None:
    return Certificate(path, key_path or None) if path else None
