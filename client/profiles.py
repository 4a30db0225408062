"""Which API, and as whom: the command line, a profile, the environment.

`$XDG_CONFIG_HOME/joblane/config.toml` (`~/.config` by default) holds profiles:

    [profiles.default]
    url = "https://jobs.acme.example"

    [profiles.nightly]                      # a machine; the file must be its owner's alone
    url = "https://jobs.acme.example"
    client_id = "4h57kf..."
    client_secret = "..."

The first of these that names an API decides, and its token is used and no other's: `--profile`,
`--url`, JOBLANE_URL, JOBLANE_PROFILE, the profile `default`.
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

from client.credentials import Credential, Given, Login, Machine, MachineLogin, name_for
from client.errors import ConfigError
from client.tokens import OTHERS, TokenFile
from client.transport import Certificate, base_url

DEFAULT = "default"

KEYS = ("url", "client_id", "client_secret", "certificate", "certificate_key")

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,39}")


@dataclass(frozen=True, slots=True)
class Asked:
    """What the command line says."""

    url: str | None = None
    token: str | None = field(default=None, repr=False)
    profile: str | None = None


@dataclass(frozen=True, slots=True)
class Target:
    """An API, and how to be someone there."""

    url: str
    credential: Credential
    file: TokenFile
    """Where a login is kept."""
    certificate: Certificate | None
    profile: str | None
    """None when the environment or the command line named the API."""
    known: bool
    """Whether the profile is in the file already."""


def target(
    asked: Asked,
    environ: Mapping[str, str] = os.environ,
    clock: Callable[[], float] = time.time,
) -> Target:
    """Find the API and the credential. Raises `ConfigError`."""
    profiles = read(config_file(environ))
    name = asked.profile
    if name is None and asked.url is None and not environ.get("JOBLANE_URL"):
        name = environ.get("JOBLANE_PROFILE") or DEFAULT
    if name is None:
        return _of_environment(asked, environ, clock)
    if not _NAME.fullmatch(name):
        raise ConfigError(f"{name!r} cannot name a profile; use letters, digits, - and _")
    return _of_profile(name, profiles.get(name), asked, environ, clock)


def config_file(environ: Mapping[str, str]) -> Path:
    """Path of the file with the profiles."""
    base = environ.get("XDG_CONFIG_HOME", "")
    home = Path(base) if base.startswith("/") else Path(environ.get("HOME", "~")) / ".config"
    return home.expanduser() / "joblane" / "config.toml"


def read(path: Path) -> dict[str, dict[str, str]]:
    """Read the profiles; none without a file. Raises `ConfigError` naming the wrong key."""
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
            raise ConfigError(f"{path}: {key} is unknown; there may be [profiles.NAME] only")
    profiles = found.get("profiles", {})
    if not isinstance(profiles, dict):
        raise ConfigError(f"{path}: profiles must be tables [profiles.NAME]")
    return {name: _profile(path, name, table, mode) for name, table in profiles.items()}


def add(environ: Mapping[str, str], name: str, url: str) -> Path:
    """Add a profile at the end of the file, which keeps what a person wrote in it."""
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
            raise ConfigError(f"{where}.{key} is unknown; there may be {', '.join(KEYS)}")
        if not isinstance(value, str) or not value:
            raise ConfigError(f"{where}.{key} must be a text")
    if "url" not in table:
        raise ConfigError(f"{where}.url is missing")
    if "client_secret" in table and mode & OTHERS:
        raise ConfigError(
            f"{path} holds a secret and could be read by others: chmod 600 it, "
            "and have the secret changed"
        )
    return table


def _of_environment(asked: Asked, environ: Mapping[str, str], clock: Callable[[], float]) -> Target:
    url = base_url(environ.get("JOBLANE_URL", "") if asked.url is None else asked.url)
    token = asked.token or environ.get("JOBLANE_TOKEN")
    client_id = environ.get("JOBLANE_CLIENT_ID", "")
    certificate = _certificate(
        environ.get("JOBLANE_CERTIFICATE"), environ.get("JOBLANE_CERTIFICATE_KEY")
    )
    file = TokenFile(environ, name_for(url, client_id))
    credential = _credential(
        url, token, client_id, environ.get("JOBLANE_CLIENT_SECRET"), file, certificate, clock
    )
    return Target(url, credential, file, certificate, None, known=False)


def _of_profile(
    name: str,
    profile: Mapping[str, str] | None,
    asked: Asked,
    environ: Mapping[str, str],
    clock: Callable[[], float],
) -> Target:
    if profile is None:
        if asked.url is None:
            raise ConfigError(_missing(name, asked, environ))
        profile = {"url": asked.url}
        known = False
    else:
        known = True
    url = base_url(profile["url"])
    if asked.url is not None and base_url(asked.url) != url:
        raise ConfigError(f"the profile {name} is for {url}; use another --profile")
    certificate = _certificate(profile.get("certificate"), profile.get("certificate_key"))
    file = TokenFile(environ, name)
    credential = _credential(
        url,
        asked.token,
        profile.get("client_id", ""),
        profile.get("client_secret") or environ.get("JOBLANE_CLIENT_SECRET"),
        file,
        certificate,
        clock,
    )
    return Target(url, credential, file, certificate, name, known=known)


def _missing(name: str, asked: Asked, environ: Mapping[str, str]) -> str:
    if asked.profile or environ.get("JOBLANE_PROFILE"):
        return (
            f"there is no profile {name} in {config_file(environ)}; "
            f"joblane --profile {name} --url URL login makes it"
        )
    return (
        "JOBLANE_URL is not set and there is no profile; joblane --url URL login makes one "
        "(scripts/up writes .local/env, so: . .local/env)"
    )


def _credential(  # noqa: PLR0913, PLR0917 - what may make a token
    url: str,
    token: str | None,
    client_id: str,
    secret: str | None,
    file: TokenFile,
    certificate: Certificate | None,
    clock: Callable[[], float],
) -> Credential:
    if token:
        return Given(token)
    if client_id and secret:
        return MachineLogin(url, file, clock, Machine(client_id, secret), certificate)
    if client_id:
        raise ConfigError(f"the client {client_id} has no secret; JOBLANE_CLIENT_SECRET holds it")
    if file.path.exists():
        return Login(url, file, clock)
    return Given(None)


def _certificate(path: str | None, key_path: str | None) -> Certificate | None:
    return Certificate(path, key_path or None) if path else None
