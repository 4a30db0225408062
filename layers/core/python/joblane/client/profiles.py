"""Profiles: which API to use and with which credential.

`$XDG_CONFIG_HOME/joblane/config.toml` (`~/.config` by default) holds profiles:

    [profiles.default]
    url = "https://jobs.acme.example"

    [profiles.nightly]                      # a machine; only the owner may read the file
    url = "https://jobs.acme.example"
    client_id = "4h57kf..."
    client_secret = "..."

    [profiles.ci]                           # an IAM role; requests are signed
    url = "https://a1b2c3d4e5.execute-api.eu-west-1.amazonaws.com"
    auth = "iam"

The first of these that names an API is used, with its own credential only: `--profile`, `--url`,
JOBLANE_URL, JOBLANE_PROFILE, the profile `default`. The credentials in the environment
(JOBLANE_TOKEN, JOBLANE_CLIENT_SECRET, JOBLANE_CERTIFICATE, JOBLANE_AUTH) belong to JOBLANE_URL.
"""

import json
import os
import re
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from joblane.client.credentials import (
    Credential,
    MachineLogin,
    PersonLogin,
    StaticToken,
    token_file_name,
)
from joblane.client.errors import ConfigError
from joblane.client.issuers import PinnedIssuer
from joblane.client.signing import AwsSignature
from joblane.client.tokens import OTHERS, TokenFile, home
from joblane.client.transport import Certificate, base_url

DEFAULT = "default"

KEYS = ("url", "auth", "client_id", "client_secret", "certificate", "certificate_key")

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,39}")


@dataclass(frozen=True, slots=True)
class Endpoint:
    """An API and the credential for it."""

    url: str
    credential: Credential
    token_file: TokenFile
    """Where a login is stored."""
    certificate: Certificate | None
    pinned: PinnedIssuer
    profile: str | None
    """None when the environment or the command line named the API."""
    profile_exists: bool
    """Whether the file contains the profile."""

    def require_login(self) -> None:
        """Raise ConfigError if requests are signed: such an API has no login and no console."""
        if isinstance(self.credential, AwsSignature):
            raise ConfigError(f"{self.url} is for IAM roles and has neither login nor console")

    def require_token(self) -> None:
        """Raise ConfigError if requests are signed, each with a signature of its own."""
        if isinstance(self.credential, AwsSignature):
            raise ConfigError(
                f"requests to {self.url} are signed for an IAM role and have no token; curl signs "
                "them too, with --aws-sigv4"
            )


def _nothing(_message: str) -> None:
    """Show nothing: the caller is a program."""


def find_endpoint(
    url: str | None = None,
    token: str | None = None,
    profile: str | None = None,
    show: Callable[[str], None] = _nothing,
) -> Endpoint:
    """Find the API and the credential; the first arguments are the command line's options.

    `show` tells a person which issuer the API named at the first login. Raises `ConfigError`.
    """
    environ = os.environ
    profiles = read(config_file(environ))
    name = profile
    if name is None and url is None and not environ.get("JOBLANE_URL"):
        name = environ.get("JOBLANE_PROFILE") or DEFAULT
    if name is None:
        found = {"url": environ.get("JOBLANE_URL", "") if url is None else url}
        if url is None or _is_for(environ, url):
            found = {**_read_given(environ), **found}
            token = token or environ.get("JOBLANE_TOKEN")
    elif not _NAME.fullmatch(name):
        raise ConfigError(f"{name!r} is not a valid profile name; use letters, digits, - and _")
    elif name in profiles:
        found = profiles[name]
    elif url is not None:
        found = {"url": url}
    else:
        raise ConfigError(_missing(name, environ, profile or environ.get("JOBLANE_PROFILE")))
    api = base_url(found["url"])
    if name is not None and url is not None and base_url(url) != api:
        raise ConfigError(f"the profile {name} is for {api}; use another --profile or no --url")
    file = TokenFile(environ, name or token_file_name(api, found.get("client_id", "")))
    path, key_path = found.get("certificate"), found.get("certificate_key")
    certificate = Certificate(path, key_path or None) if path else None
    pinned = PinnedIssuer(environ, api, show)
    credential = StaticToken(token) if token else _login(found, file, certificate, pinned)
    return Endpoint(
        api, credential, file, certificate, pinned, name, profile_exists=name in profiles
    )


def _is_for(environ: Mapping[str, str], url: str) -> bool:
    """Whether the credentials in the environment were set for the API at `url`."""
    own = environ.get("JOBLANE_URL", "")
    return own.strip() != "" and base_url(own) == base_url(url)


def _read_given(environ: Mapping[str, str]) -> dict[str, str]:
    return {key: environ.get(f"JOBLANE_{key.upper()}", "") for key in KEYS}


def config_file(environ: Mapping[str, str]) -> Path:
    """Path of the configuration file."""
    return home(environ, "XDG_CONFIG_HOME", ".config") / "config.toml"


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


def _profile(path: Path, name: str, table: Any, mode: int) -> dict[str, str]:
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


def _missing(name: str, environ: Mapping[str, str], wanted: str | None) -> str:
    if wanted:
        return (
            f"no profile {name} in {config_file(environ)}; "
            f"create it with: joblane --profile {name} --url URL login"
        )
    return (
        "JOBLANE_URL is not set and there is no profile; create one with: joblane --url URL login "
        "(for the local deployment: . .local/env)"
    )


def _login(
    found: Mapping[str, str],
    file: TokenFile,
    certificate: Certificate | None,
    pinned: PinnedIssuer,
) -> Credential:
    client_id, secret = found.get("client_id"), found.get("client_secret")
    if auth := found.get("auth"):
        if auth != "iam" or client_id:
            raise ConfigError(f"auth (JOBLANE_AUTH) is {auth}; allowed: iam, without a client_id")
        return AwsSignature(pinned.api_url)
    if client_id and secret:
        return MachineLogin(pinned, file, client_id, secret, certificate)
    if client_id:
        raise ConfigError(
            f"the client {client_id} has no secret; put client_secret into its profile, or set "
            "JOBLANE_URL, JOBLANE_CLIENT_ID and JOBLANE_CLIENT_SECRET"
        )
    return PersonLogin(pinned.api_url, file) if file.path.exists() else StaticToken(None)
