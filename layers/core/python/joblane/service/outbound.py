"""Connections to addresses that tenants choose: which are allowed, and within what time.

Without a guard tenants could reach hosts inside the account, and have anybody's address called with
what they like. The guard checks the host and the addresses that it resolves to, and the connection
uses the checked address: the name is not resolved a second time.
"""

import re
import socket
import ssl
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

from joblane.condition.names import Address
from joblane.errors import Failure
from joblane.formats.addresses import is_public

IpAddress = IPv4Address | IPv6Address
IpNetwork = IPv4Network | IPv6Network

HEAD_BYTES = 16 * 1024
"""How much of a response is read to find the status line."""

_NAT64 = IPv6Network("64:ff9b::/96")
_NEVER = tuple(
    ip_network(n) for n in ("169.254.0.0/16", "fe80::/10", "fd00:ec2::/32", "64:ff9b:1::/48")
)
"""Link-local addresses, where instances and functions get credentials, and translations to local
addresses: never allowed."""

_STATUS = re.compile(rb"(?:\A|\r?\n\r?\n)HTTP/1\.[01] ([1-5][0-9]{2})(?: [^\r\n]*)?\r?\n")


class HostForbidden(Failure):
    """The deployment does not allow this host or its addresses; the text says so."""


class InvalidHost(HostForbidden):
    """The host is no name that DNS can express."""


def resolve(address: Address) -> list[str]:
    """Resolve a host to addresses, in the order to try them. Raises OSError."""
    found = socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))


@dataclass(frozen=True)
class Guard:
    """Decides what may be connected to: the listed hosts, and the listed networks."""

    hosts: Collection[str] = ()
    """Names and addresses, in lower case, that may be reached at public addresses."""
    networks: Sequence[IpNetwork] = ()
    """Addresses that any host may be reached at."""
    resolve: Callable[[Address], list[str]] = resolve
    every_host: bool = False
    """Whether every host may be reached at public addresses."""

    def addresses(self, address: Address) -> list[str]:
        """Return the addresses of a host that may be connected to.

        Raises OSError when the name does not resolve, HostForbidden when all are forbidden. A host
        that is forbidden whatever it resolves to is not resolved: a look-up reaches its domain's
        servers.
        """
        listed = self.every_host or address.host.lower() in self.hosts
        fine: list[str] = []
        if listed or self.networks:
            try:
                found = self.resolve(address)
            except UnicodeError:  # a name that DNS cannot express: a label is empty or too long
                raise InvalidHost("its host is not a valid name") from None
            fine = [text for text in found if self._may(text, listed=listed)]
        if not fine:
            raise HostForbidden("this deployment does not allow its host or its address")
        return fine

    def _may(self, address: str, *, listed: bool) -> bool:
        ip = _inner(ip_address(address.partition("%")[0]))
        if any(ip in network for network in _NEVER):
            return False
        if any(ip in network for network in self.networks):
            return True
        return listed and is_public(ip)


def _inner(ip: IpAddress) -> IpAddress:
    """Return the IPv4 address embedded in an IPv6 address, if any: packets go there."""
    if isinstance(ip, IPv4Address):
        return ip
    if ip in _NAT64:
        return IPv4Address(int(ip) & 0xFFFFFFFF)
    teredo = ip.teredo[1] if ip.teredo else None
    return ip.ipv4_mapped or ip.sixtofour or teredo or ip


class Deadline:
    """One time limit for several calls, so that a slow server cannot extend it."""

    def __init__(self, timeout_s: float) -> None:
        self._timeout_s = timeout_s
        self._ends = time.monotonic() + timeout_s

    def left_s(self) -> float:
        """Seconds left. Raises TimeoutError."""
        left = self._ends - time.monotonic()
        if left <= 0:
            raise TimeoutError(f"no answer within {self._timeout_s:g} s")
        return left


def connect(guard: Guard, address: Address, deadline: Deadline) -> socket.socket:
    """Connect to the first address that accepts. Raises OSError, HostForbidden."""
    addresses = guard.addresses(address)
    for text in addresses[:-1]:
        try:
            # Each address gets an equal part of the remaining time.
            share = deadline.left_s() / len(addresses)
            return socket.create_connection((text, address.port), timeout=share)
        except OSError:
            continue
    return socket.create_connection((addresses[-1], address.port), timeout=deadline.left_s())


def ask(connection: socket.socket, request: bytes, deadline: Deadline) -> int | None:
    """Send a request and return the status of the response, None if there is none.

    The body of the response is not read. Raises OSError.
    """
    connection.settimeout(deadline.left_s())
    connection.sendall(request)
    read = b""
    while len(read) < HEAD_BYTES:
        connection.settimeout(deadline.left_s())
        piece = connection.recv(4096)
        if not piece:
            return None
        read += piece
        for status in _STATUS.findall(read):
            if int(status) >= 200:
                return int(status)
    return None


def secure_connection(plain: socket.socket, host: str) -> ssl.SSLSocket:
    """TLS over a connection, whose certificate must be valid for the host. Raises OSError."""
    return ssl.create_default_context().wrap_socket(plain, server_hostname=host)


def trouble(error: OSError, timeout_s: float) -> str:
    """Describe a failed connection."""
    kinds: tuple[tuple[type[OSError], str], ...] = (
        (socket.gaierror, "its name does not resolve"),
        (TimeoutError, f"no answer within {timeout_s:g} s"),
        (ConnectionRefusedError, "refuses connections"),
        (ConnectionError, "closes the connection"),
        (ssl.SSLCertVerificationError, "its TLS certificate is not valid"),
        (ssl.SSLError, "TLS handshake failed"),
    )
    for kind, words in kinds:
        if isinstance(error, kind):
            return words
    return error.strerror or "cannot be reached"
