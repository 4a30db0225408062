"""Names of conditions: their syntax, and the scope of a tenant.

Standard library only: every job's shim imports it.
"""

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

MAX_NAME = 512
"""Characters of a condition's name, which is in every row of its list: the row must fit one write
unit."""

MOST_S = 48 * 3600
"""Longest time that a job may wait for a condition, under any policy."""

MAX_PORT = 65_535

_PRINTABLE = re.compile(r"[\x21-\x7e]+")
_NAME = re.compile(r"[a-z][a-z0-9-]{0,30}")
_APP = re.compile(r"[a-zA-Z0-9][a-zA-Z0-9_.-]{0,63}")
_SCOPED = re.compile(rf"({_NAME.pattern}/)?{_APP.pattern}")
_HOST = re.compile(r"[a-zA-Z0-9]([a-zA-Z0-9.-]{0,251}[a-zA-Z0-9])?|\[[0-9a-fA-F:.]{2,45}\]")


@dataclass(frozen=True, slots=True)
class Condition:
    """A parsed condition."""

    kind: str
    parameter: str

    @property
    def name(self) -> str:
        """The name that it was parsed from."""
        return f"{self.kind}:{self.parameter}"


@dataclass(frozen=True, slots=True)
class Address:
    """Target of a `tcp` or `http` condition."""

    host: str
    """A host name, or an IP address without brackets."""
    port: int


def http_address(parameter: str) -> Address:
    """Target of an `http` condition. Raises ValueError for anything but a plain URL.

    Credentials are refused because a condition's name is visible to everyone who can read the
    job, and fragments because they never reach a server.
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
    """Target of a `tcp` condition. Raises ValueError unless it is `host:port`."""
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


def _make_check(pattern: re.Pattern[str], what: str) -> Callable[[str], None]:
    def check(parameter: str) -> None:
        if not pattern.fullmatch(parameter):
            raise ValueError(f"must name {what}, which looks like {pattern.pattern}")

    return check


KINDS: Mapping[str, Callable[[str], object]] = {
    "http": http_address,
    "tcp": tcp_address,
    "quota": _make_check(_NAME, "a tenant"),
    "capacity": _make_check(_NAME, "a fleet"),
    "app": _make_check(_SCOPED, "an application"),
}
"""Kinds of conditions, each with the check of its parameter, which raises ValueError."""


def parse(name: str) -> Condition:
    """Parse a condition's name. Raises ValueError, whose text does not repeat the name."""
    if len(name) > MAX_NAME or not _PRINTABLE.fullmatch(name):
        raise ValueError(f"must have at most {MAX_NAME} printable characters and no space")
    kind, colon, parameter = name.partition(":")
    if not colon or kind not in KINDS:
        raise ValueError(f"must start with one of {', '.join(f'{known}:' for known in KINDS)}")
    KINDS[kind](parameter)
    return Condition(kind, parameter)


def is_condition(name: str) -> bool:
    """Whether a text is a condition's name."""
    try:
        parse(name)
    except ValueError:
        return False
    return True


def check_requested(name: str) -> str:
    """Return a name that a submission may use. Raises ValueError for any other."""
    parse(name)
    if unscope_name(name) != name:
        raise ValueError(f"must name an application, which looks like {_APP.pattern}")
    return name


def check_named_by_job(name: str, tenant: str, requires: Collection[str]) -> str:
    """Return a name that a running job may use for what it waits for. Raises ValueError.

    A job without a network must not have an address of its choice tested: the address can carry
    its secrets. So it may use what its submission lists in `requires`, and what is tested in
    Joblane's own tables for its own tenant.
    """
    check_requested(name)
    if name in requires or name.startswith("app:") or name == f"quota:{tenant}":
        return name
    raise ValueError(
        f"must be listed in the job's requires, or be app: and a name, or quota:{tenant}"
    )


def scope_name(name: str, tenant: str) -> str:
    """The deployment-wide name of what a tenant calls `name`.

    An application belongs to a tenant, whose operators declare it down: `app:billing` of
    the tenant acme is `app:acme/billing`. The other kinds are the same for
    all tenants, because they are tested.
    """
    kind, _, parameter = name.partition(":")
    return f"app:{tenant}/{parameter}" if kind == "app" else name


def unscope_name(name: str) -> str:
    """Inverse of `scope_name`: the name within its tenant."""
    kind, _, parameter = name.partition(":")
    return f"app:{parameter.rpartition('/')[2]}" if kind == "app" else name


def default_condition(queue: str) -> str:
    """The condition of a job that is blocked by its exit code, and names none."""
    return f"app:{queue}"
