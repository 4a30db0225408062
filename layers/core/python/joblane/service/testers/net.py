"""Testers `http` and `tcp`, and the guard that keeps them to what the deployment allows.

Submitters choose the address, so without a guard they could probe hosts inside the account, and
have anybody's address called with what they like. The guard checks the host and the addresses that
it resolves to, and the connection uses the checked address: the name is not resolved a second time.
"""

import re
import socket
import ssl
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from urllib.parse import urlsplit

from joblane.condition.names import Address, http_address, tcp_address
from joblane.service.testers import BATCH, BadParameters, Finding, Tester

IpAddress = IPv4Address | IPv6Address
IpNetwork = IPv4Network | IPv6Network

TIMEOUT_S = 4.0
"""Timeout of one test, without name resolution. A tester has five seconds."""

HEAD_BYTES = 16 * 1024
"""How much of a response is read to find the status line."""

_NAT64 = IPv6Network("64:ff9b::/96")
_NEVER = tuple(ip_network(n) for n in ("169.254.0.0/16", "fe80::/10", "fd00:ec2::/32"))
"""Link-local addresses, where instances and functions get credentials: never allowed."""

_STATUS = re.compile(rb"(?:\A|\r?\n\r?\n)HTTP/1\.[01] ([1-5][0-9]{2})(?: [^\r\n]*)?\r?\n")
_WELL = range(200, 400)


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

    def addresses(self, address: Address) -> list[str]:
        """Return the addresses of a host that may be connected to.

        Raises OSError when the name does not resolve, BadParameters when all are forbidden. A
        host that is forbidden whatever it resolves to is not resolved: a look-up reaches its
        domain's servers.
        """
        listed = address.host.lower() in self.hosts
        fine: list[str] = []
        if listed or self.networks:
            try:
                found = self.resolve(address)
            except UnicodeError:  # a name that DNS cannot express: a label is empty or too long
                raise BadParameters("its host is not a valid name") from None
            fine = [text for text in found if self._may(text, listed=listed)]
        if not fine:
            raise BadParameters(
                "this deployment does not allow conditions to reach its host or its address "
                "(recovery.allow_hosts and recovery.allow_networks in joblane.toml)"
            )
        return fine

    def _may(self, address: str, *, listed: bool) -> bool:
        ip = _inner(ip_address(address.partition("%")[0]))
        if any(ip in network for network in _NEVER):
            return False
        if any(ip in network for network in self.networks):
            return True
        return listed and ip.is_global and not ip.is_multicast


def _inner(ip: IpAddress) -> IpAddress:
    """Return the IPv4 address embedded in an IPv6 address, if any: packets go there."""
    if isinstance(ip, IPv4Address):
        return ip
    if ip in _NAT64:
        return IPv4Address(int(ip) & 0xFFFFFFFF)
    teredo = ip.teredo[1] if ip.teredo else None
    return ip.ipv4_mapped or ip.sixtofour or teredo or ip


@dataclass(frozen=True)
class TcpTester(Tester):
    """Passes if the address accepts a connection."""

    guard: Guard

    def test(self, parameter: str) -> Finding:
        """Connect and close the connection."""
        try:
            _connect(self.guard, tcp_address(parameter), _Deadline()).close()
        except OSError as error:
            return Finding(0, _trouble(error))
        return Finding(BATCH, "accepts connections")


@dataclass(frozen=True)
class HttpTester(Tester):
    """Passes if a GET returns 2xx or 3xx. Redirects are not followed."""

    guard: Guard
    timeout_s: float = TIMEOUT_S

    def test(self, parameter: str) -> Finding:
        """Send one GET and read until the status line."""
        deadline = _Deadline(self.timeout_s)
        address = http_address(parameter)
        try:
            with _connect(self.guard, address, deadline) as plain:
                if parameter.startswith("https:"):
                    tls = ssl.create_default_context()
                    with tls.wrap_socket(plain, server_hostname=address.host) as secure:
                        status = _status(secure, parameter, deadline)
                else:
                    status = _status(plain, parameter, deadline)
        except OSError as error:
            return Finding(0, _trouble(error))
        if status is None:
            return Finding(0, "does not speak HTTP")
        return Finding(BATCH if status in _WELL else 0, f"answers {status}")


class _Deadline:
    """One time limit for several calls, so that a slow server cannot extend it."""

    def __init__(self, timeout_s: float = TIMEOUT_S) -> None:
        self._ends = time.monotonic() + timeout_s

    def left_s(self) -> float:
        """Seconds left. Raises TimeoutError."""
        left = self._ends - time.monotonic()
        if left <= 0:
            raise TimeoutError(f"no answer within {TIMEOUT_S:g} s")
        return left


def _connect(guard: Guard, address: Address, deadline: _Deadline) -> socket.socket:
    """Connect to the first address that accepts. Raises OSError, BadParameters."""
    addresses = guard.addresses(address)
    for text in addresses[:-1]:
        try:
            # Each address gets an equal part of the remaining time.
            share = deadline.left_s() / len(addresses)
            return socket.create_connection((text, address.port), timeout=share)
        except OSError:
            continue
    return socket.create_connection((addresses[-1], address.port), timeout=deadline.left_s())


def _status(connection: socket.socket, url: str, deadline: _Deadline) -> int | None:
    """Request a URL and return the status of the response, None if there is none."""
    parts = urlsplit(url)
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    request = f"GET {path} HTTP/1.1\r\nHost: {parts.netloc}\r\n"
    request += "User-Agent: joblane-recovery\r\nAccept: */*\r\nConnection: close\r\n\r\n"
    connection.settimeout(deadline.left_s())
    connection.sendall(request.encode("ascii"))
    read = b""
    while len(read) < HEAD_BYTES:
        connection.settimeout(deadline.left_s())
        piece = connection.recv(4096)
        if not piece:
            return None
        read += piece
        for status in _STATUS.findall(read):
            if int(status) >= 200:  # noqa: PLR2004 - below 200: interim responses (RFC 9110, 15.2)
                return int(status)
    return None


_TROUBLE: tuple[tuple[type[OSError], str], ...] = (
    (socket.gaierror, "its name does not resolve"),
    (TimeoutError, f"no answer within {TIMEOUT_S:g} s"),
    (ConnectionRefusedError, "refuses connections"),
    (ConnectionError, "closes the connection"),
    (ssl.SSLCertVerificationError, "its TLS certificate is not valid"),
    (ssl.SSLError, "TLS handshake failed"),
)


def _trouble(error: OSError) -> str:
    """Describe a failed connection."""
    for kind, words in _TROUBLE:
        if isinstance(error, kind):
            return words
    return error.strerror or "cannot be reached"
