"""Testers `http` and `tcp`, and the guard that keeps them to what the deployment allows.

Submitters choose the address: `joblane.service.outbound` says what that means.
"""

from dataclasses import dataclass
from urllib.parse import urlsplit

from joblane.condition.names import Address, http_address, tcp_address
from joblane.service import outbound
from joblane.service.condition.testers import BATCH, BadParameters, Finding, Tester
from joblane.service.outbound import (
    Deadline,
    HostForbidden,
    InvalidHost,
    IpNetwork,
    ask,
    connect,
    secure_connection,
    trouble,
)

__all__ = ["ConditionGuard", "HttpTester", "IpNetwork", "TcpTester"]

TIMEOUT_S = 4.0
"""Timeout of one test, without name resolution. A tester has five seconds."""

_WELL = range(200, 400)


@dataclass(frozen=True)
class ConditionGuard(outbound.Guard):
    """Decides what conditions may reach."""

    def addresses(self, address: Address) -> list[str]:
        """As that of every guard, but raises BadParameters when all are forbidden."""
        try:
            return super().addresses(address)
        except InvalidHost as refusal:
            raise BadParameters(str(refusal)) from None
        except HostForbidden:
            raise BadParameters(
                "this deployment does not allow conditions to reach its host or its address "
                "(recovery.allow_hosts and recovery.allow_networks in joblane.toml)"
            ) from None


@dataclass(frozen=True)
class TcpTester(Tester):
    """Passes if the address accepts a connection."""

    guard: ConditionGuard

    def test(self, parameter: str) -> Finding:
        """Connect and close the connection."""
        try:
            connect(self.guard, tcp_address(parameter), Deadline(TIMEOUT_S)).close()
        except OSError as error:
            return Finding(0, trouble(error, TIMEOUT_S))
        return Finding(BATCH, "accepts connections")


@dataclass(frozen=True)
class HttpTester(Tester):
    """Passes if a GET returns 2xx or 3xx. Redirects are not followed."""

    guard: ConditionGuard
    timeout_s: float = TIMEOUT_S

    def test(self, parameter: str) -> Finding:
        """Send one GET and read until the status line."""
        deadline = Deadline(self.timeout_s)
        address, request = http_address(parameter), _request(parameter)
        try:
            with connect(self.guard, address, deadline) as plain:
                if parameter.startswith("https:"):
                    with secure_connection(plain, address.host) as secure:
                        status = ask(secure, request, deadline)
                else:
                    status = ask(plain, request, deadline)
        except OSError as error:
            return Finding(0, trouble(error, TIMEOUT_S))
        if status is None:
            return Finding(0, "does not speak HTTP")
        return Finding(BATCH if status in _WELL else 0, f"answers {status}")


def _request(url: str) -> bytes:
    """A GET of a URL."""
    parts = urlsplit(url)
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    request = f"GET {path} HTTP/1.1\r\nHost: {parts.netloc}\r\n"
    request += "User-Agent: joblane-recovery\r\nAccept: */*\r\nConnection: close\r\n\r\n"
    return request.encode("ascii")
