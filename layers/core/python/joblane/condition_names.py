"""The names of conditions: what may be waited for, and how a tenant calls it.

Pure, and without any library: every job's shim checks names with it.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

MAX_NAME = 512
"""Characters of a condition's name. It stands in every row of its list: with it the row stays
within one write unit."""

MAX_PORT = 65_535

_PRINTABLE = re.compile(r"[\x21-\x7e]+")
_NAME = re.compile(r"[a-z][a-z0-9-]{0,30}")
_APP = re.compile(r"[a-zA-Z0-9][a-zA-Z0-9_.-]{0,63}")
_SCOPED = re.compile(rf"({_NAME.pattern}/)?{_APP.pattern}")
_HOST = re.compile(r"[a-zA-Z0-9]([a-zA-Z0-9.-]{0,251}[a-zA-Z0-9])?|\[[0-9a-fA-F:.]{2,45}\]")


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition, taken apart."""

    kind: str
    parameter: str

    @property
    def name(self) -> str:
        """The name that it was parsed from."""
        return f"{self.kind}:{self.parameter}"


@dataclass(frozen=True, slots=True)
class Address:
    """Where a `tcp` or `http` condition connects to."""

    host: str
    """A name or an IP address, the latter without brackets."""
    port: int


def http_address(parameter: str) -> Address:
    """Where an `http` condition connects to. Raises ValueError for what is not a plain URL.

    Credentials are refused because a condition's name is shown to everybody who sees the job,
    and fragments because they never reach a server.
    """
    try:
        parts = urlsplit(parameter)
    except ValueError:  # its text repeats what it was given
        raise ValueError("must be http: and a URL") from None
    if parts.scheme not in ("http", "https"):
        raise ValueError("must be http: and a URL that starts with http:// or https://")
    if "@" in parts.netloc:
        raise ValueError("must not carry a user or a password")
    if "#" in parameter:
        raise ValueError("must not have a fragment")
    host, port = _split(parts.netloc)
    return Address(host, port or {"http": 80, "https": 443}[parts.scheme])


def tcp_address(parameter: str) -> Address:
    """Where a `tcp` condition connects to. Raises ValueError unless it is `host:port`."""
    host, port = _split(parameter)
    if port is None:
        raise ValueError("must be tcp: and host:port, such as tcp:db.example.com:5432")
    return Address(host, port)


def _split(netloc: str) -> tuple[str, int | None]:
    match = re.fullmatch(rf"(?P<host>{_HOST.pattern})(:(?P<port>[0-9]{{1,5}}))?", netloc)
    if match is None:
        raise ValueError("must name a host, or an address (IPv6 in brackets), and may name a port")
    port = int(match["port"]) if match["port"] else None
    if port is not None and not 1 <= port <= MAX_PORT:
        raise ValueError("must have a port from 1 to 65535")
    return match["host"].strip("[]"), port


def _named(pattern: re.Pattern[str], what: str) -> Callable[[str], None]:
    def check(parameter: str) -> None:
        if not pattern.fullmatch(parameter):
            raise ValueError(f"must name {what}, which looks like {pattern.pattern}")

    return check


KINDS: Mapping[str, Callable[[str], object]] = {
    "http": http_address,
    "tcp": tcp_address,
    "quota": _named(_NAME, "a tenant"),
    "capacity": _named(_NAME, "a fleet"),
    "app": _named(_SCOPED, "an application"),
}
"""Every kind of condition with the check of its parameter, which raises ValueError."""


def parse(name: str) -> Condition:
    """Take a condition's name apart. Raises ValueError; the text does not repeat the name."""
    if len(name) > MAX_NAME or not _PRINTABLE.fullmatch(name):
        raise ValueError(f"must have at most {MAX_NAME} printable characters and no space")
    kind, colon, parameter = name.partition(":")
    if not colon or kind not in KINDS:
        raise ValueError(f"must start with one of {', '.join(f'{known}:' for known in KINDS)}")
    KINDS[kind](parameter)
    return Condition(kind, parameter)


def requested(name: str) -> str:
    """Give a name that a job may wait for by its own word; raises ValueError for another."""
    parse(name)
    if unscoped(name) != name:
        raise ValueError(f"must name an application, which looks like {_APP.pattern}")
    return name


def scoped(name: str, tenant: str) -> str:
    """The name under which a tenant's jobs wait for what they call `name`.

    An application is a tenant's own, because its operators declare it down: `app:billing` of
    the tenant acme is `app:acme/billing`. The other kinds are tested, and are the same for all.
    """
    kind, _, parameter = name.partition(":")
    return f"app:{tenant}/{parameter}" if kind == "app" else name


def unscoped(name: str) -> str:
    """Inverse of `scoped`: the name as its tenant knows it."""
    kind, _, parameter = name.partition(":")
    return f"app:{parameter.rpartition('/')[2]}" if kind == "app" else name


def default_condition(queue: str) -> str:
    """What a job that exits 75 without naming a condition waits for."""
    return f"app:{queue}"
