"""Facts of a host's network as Linux shows them: interfaces, their addresses, and routes."""

import contextlib
import os
import socket
import struct
import sys
from collections.abc import Callable, Iterable, Sequence
from fcntl import ioctl
from ipaddress import (
    IPv4Address,
    IPv4Interface,
    IPv4Network,
    IPv6Address,
    IPv6Interface,
    IPv6Network,
)
from pathlib import Path
from typing import Final, NamedTuple, TypeVar

from joblane.target.facts import MAX_VALUE_BYTES, FactValue, join_bounded

PROC_NET: Final = Path("/proc/net")

_SIOCGIFADDR, _SIOCGIFNETMASK = 0x8915, 0x891B  # linux/sockios.h
_UP, _REJECT, _LOCAL = 0x1, 0x200, 0x80000000  # flags of routes: linux/route.h, linux/ipv6_route.h
_GLOBAL = "00"  # the scope of an address in if_inet6
_LOOPBACK = "lo"
_T = TypeVar("_T")


class Interface(NamedTuple):
    """An address of a network interface."""

    name: str
    address: IPv4Interface | IPv6Interface

    def __str__(self) -> str:
        return f"{self.name} {self.address}"


class Route(NamedTuple):
    """A route of the main table."""

    to: IPv4Network | IPv6Network
    via: IPv4Address | IPv6Address | None
    """The gateway; None: hosts of that network are reached directly."""
    interface: str
    metric: int

    def __str__(self) -> str:
        """As `ip route` prints it."""
        to = str(self.to) if self.to.prefixlen else "default"
        return (
            f"{to} via {self.via} dev {self.interface}"
            if self.via
            else f"{to} dev {self.interface}"
        )


def network_facts(proc_net: Path = PROC_NET) -> dict[str, FactValue]:
    """Read the facts of this host's network; those that cannot be read are absent."""
    routes = [
        *_read(proc_net / "route", _ipv4_routes),
        *_read(proc_net / "ipv6_route", _ipv6_routes),
    ]
    interfaces = [*_ipv4_interfaces(), *_read(proc_net / "if_inet6", _ipv6_interfaces)]
    return describe(interfaces, routes)


def describe(interfaces: Sequence[Interface], routes: Sequence[Route]) -> dict[str, FactValue]:
    """Return the facts of a network. What is most used comes first, since long texts are bounded.

    The primary interface is that of the default route: IPv4 before IPv6, the lowest metric first.
    """
    order = sorted(
        routes, key=lambda route: (route.to.prefixlen > 0, route.to.version, route.metric)
    )
    primary = order[0].interface if order and not order[0].to.prefixlen else None
    found = sorted(interfaces, key=lambda entry: (entry.name != primary, entry.name))
    facts: dict[str, FactValue] = {}
    if primary is not None:
        facts["interface.primary"] = primary
        if found and found[0].name == primary:
            facts["ip.primary"] = str(found[0].address.ip)
    for name, entries in (("interfaces", found), ("routes", order)):
        if entries:
            facts[name] = join_bounded(list(map(str, entries)), MAX_VALUE_BYTES, name)
    return facts


def _read(file: Path, parse: Callable[[Iterable[list[str]]], Iterable[_T]]) -> list[_T]:
    """Parse the words of each line of a file of `/proc/net`; nothing without that file."""
    try:
        # Bytes of names need not be text.
        lines = file.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:  # a kernel without IPv6, a host without descriptors
        return []
    return list(parse(line.split() for line in lines))


def _ipv4_routes(lines: Iterable[list[str]]) -> Iterable[Route]:
    """`/proc/net/route`: its first line has the names of columns."""
    for name, to, via, flags, _, _, metric, mask, *_ in lines:
        if name != "Iface" and int(flags, 16) & _UP and not int(flags, 16) & _REJECT:
            network = IPv4Network((_ipv4(to), str(_ipv4(mask))))
            yield Route(network, _ipv4(via) if int(via, 16) else None, name, int(metric))


def _ipv4(word: str) -> IPv4Address:
    """The four bytes of an address, as a number in the machine's byte order."""
    return IPv4Address(int(word, 16).to_bytes(4, sys.byteorder))


def _ipv6_routes(lines: Iterable[list[str]]) -> Iterable[Route]:
    """`/proc/net/ipv6_route`, without the host's own addresses, link-local ones and multicast."""
    for to, length, _, _, via, metric, _, _, flags, name in lines:
        network = IPv6Network((int(to, 16), int(length, 16)))
        own = name == _LOOPBACK or int(flags, 16) & (_LOCAL | _REJECT)
        if not own and not network.is_multicast and not network.is_link_local:
            gateway = IPv6Address(int(via, 16)) if int(via, 16) else None
            yield Route(network, gateway, name, int(metric, 16))


def _ipv4_interfaces() -> Iterable[Interface]:
    """The first IPv4 address of each interface; none on a host without descriptors."""
    with (
        contextlib.suppress(OSError),
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked,
    ):
        for _, escaped in socket.if_nameindex():
            request = struct.pack("256s", os.fsencode(escaped))
            name = os.fsencode(escaped).decode(errors="replace")
            with contextlib.suppress(OSError):  # it has none, or has just gone
                address, mask = (
                    IPv4Address(ioctl(asked.fileno(), call, request)[20:24])
                    for call in (_SIOCGIFADDR, _SIOCGIFNETMASK)
                )
                if name != _LOOPBACK:
                    yield Interface(name, IPv4Interface((address, str(mask))))


def _ipv6_interfaces(lines: Iterable[list[str]]) -> Iterable[Interface]:
    """`/proc/net/if_inet6`: addresses that other networks reach."""
    for address, _, length, scope, _, name in lines:
        if scope == _GLOBAL and name != _LOOPBACK:
            yield Interface(name, IPv6Interface((int(address, 16), int(length, 16))))
