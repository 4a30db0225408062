"""Network `egress`: a network link per job, NAT, and the refused ranges.

    job's namespace                      host
    eth0 198.18.b.n+1/31 ---- veth ---- jl<block>-<n> 198.18.b.n/31 -- nftables -- uplink

Jobs hold no capability, so none can change its address, route or link. The rules are loaded
once, for all links of a launcher; a new link needs no new rule. They also bound what each link has
of the host's connection table, and its bandwidth (docs/decisions/0106-egress-by-rules.md).
"""

import collections
import contextlib
import ipaddress
import os
import socket
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from ec2_agent.sandbox import egress_modules, netlink, nft
from ec2_agent.sandbox.model import EgressPolicy, HostLacks, SandboxRefused

Network = ipaddress.IPv4Network

LINKS = Network("198.18.0.0/15")
"""Addresses of links: reserved for benchmarks (RFC 2544), never routed."""

LINKS_EACH = 1000
"""Links per launcher: one per uid. Block n has the 2048 addresses from 198.18.0.0 + 2048 n."""

NEVER = tuple(map(ipaddress.IPv4Network, ("127.0.0.0/8", "169.254.0.0/16")))
"""Loopback and link-local, the metadata services among them: no allow-list opens these."""

REFUSED = (
    *NEVER,
    *map(
        ipaddress.IPv4Network,
        (
            # The special-purpose registry of RFC 6890 and its successors.
            "0.0.0.0/8",
            "10.0.0.0/8",
            "100.64.0.0/10",
            "172.16.0.0/12",
            "192.0.0.0/24",
            "192.0.2.0/24",
            "192.168.0.0/16",
            "198.18.0.0/15",
            "198.51.100.0/24",
            "203.0.113.0/24",
            "224.0.0.0/4",
            "240.0.0.0/4",
        ),
    ),
)

_BLOCK = 2048
"""Addresses of a block."""

_CONNTRACK_MAX = Path("/proc/sys/net/netfilter/nf_conntrack_max")

_PORTS = 1 << 16
"""Ports of the host's address: NAT gives each connection to the same destination one."""

_MOST = 8192
"""Most entries of one job: for each new connection the kernel looks up those that it counts."""

_CLOSED_S, _COLLECTED_S = 10, 60
"""How long a closed connection has its entry, by our rules, and then until the kernel removes it
(GC_SCAN_INTERVAL_MAX of net/netfilter/nf_conntrack_core.c)."""

MAX_MBPS = 10_000
"""More than EC2 gives a single flow; joblane.toml has the same bound."""

_RESOLV = (Path("/run/systemd/resolve/resolv.conf"), Path("/etc/resolv.conf"))
"""systemd-resolved's own list first: /etc/resolv.conf then names only its loopback stub."""


def host_resolvers(files: Iterable[Path] = _RESOLV) -> tuple[str, ...]:
    """Return the IPv4 DNS servers of this host, from the first file that can be read."""
    for file in files:
        with contextlib.suppress(OSError):
            words = (line.split() for line in file.read_text().splitlines())
            found = [w[1] for w in words if w[:1] == ["nameserver"] and len(w) > 1]
            return tuple(address for address in found if ":" not in address)
    return ()


class ConnectionShare(NamedTuple):
    """What a job may have of the connection table: `share` entries, in thirds."""

    share: int
    open: int
    """Connections at once, also half-open ones and flows of UDP."""
    burst: int
    """Connections that it may open without a pause."""
    per_minute: int
    """Connections that it may open after those."""


def connections(policy: EgressPolicy, table: int) -> ConnectionShare:
    """Divide three quarters of a table of so many entries; the rest is the host's own.

    The kernel counts open connections only, but a closed one keeps its entry for some time. A
    share is never exceeded: what is in the table was open then, or has been opened since.
    """
    share = min(_MOST, min(table, _PORTS) * 3 // 4 // min(policy.jobs, LINKS_EACH))
    third = max(1, share // 3)
    return ConnectionShare(share, third, third, max(1, third * 60 // (_CLOSED_S + _COLLECTED_S)))


def parse(policy: EgressPolicy) -> tuple[list[Network], list[Network]]:
    """Return the (allowed, refused) networks; raises SandboxRefused for an invalid policy."""
    if policy.mbps is not None and not 1 <= policy.mbps <= MAX_MBPS:
        raise SandboxRefused(f"egress: {policy.mbps} Mbit/s is not between 1 and {MAX_MBPS}")
    try:
        allowed = [ipaddress.IPv4Network(text) for text in policy.allow]
        refused = [*REFUSED, *(ipaddress.IPv4Network(text) for text in policy.refuse)]
        for address in policy.resolvers:
            ipaddress.IPv4Address(address)
    except ValueError as wrong:
        raise SandboxRefused(f"egress: {wrong}") from None
    for network in allowed:
        if any(network.overlaps(never) for never in NEVER):
            raise SandboxRefused(
                f"egress: {network} reaches loopback or link-local addresses (the metadata "
                "service), which no allow-list can open"
            )
    return allowed, refused


def rules(
    policy: EgressPolicy, resolvers: tuple[str, ...], block: int, most: ConnectionShare
) -> str:
    """Return the nftables script for the links of a launcher; it replaces an older one.

    A connection that is refused leaves no entry, which the kernel inserts when the packet leaves.
    From then on it is confirmed, but its packets are new until there is an answer. The count
    follows the rate, because the kernel forgets only slowly what it has counted and the rules have
    refused. Its key is the interface's index, which no other link has had.
    """
    allowed, refused = parse(policy)
    table, ours = f"inet joblane-{block}", f'"jl{block}-*"'
    addresses = (_address_of(block, link) for link in range(LINKS_EACH))
    marks = ", ".join(f"{address} : {int(address)}" for address in addresses)
    return f"""
table {table} {{}}
delete table {table}
table {table} {{
  {_set("refused", ipaddress.collapse_addresses(refused))}
  {_set("allowed", ipaddress.collapse_addresses(allowed))}
  {_set("resolvers", resolvers)}
  map marks {{ type ipv4_addr : mark; elements = {{ {marks} }} }}
  set opened {{ type iface_index; size 65535; flags dynamic,timeout; timeout 1m; }}
  set open {{ type iface_index; size 65535; flags dynamic; }}
  ct timeout closed {{
    protocol tcp; l3proto ip; policy = {{ time_wait : {_CLOSED_S}, close : {_CLOSED_S} }};
  }}
  chain judge {{
    ct state established,related accept
    ip daddr @resolvers meta l4proto {{ tcp, udp }} th dport 53 goto admit
    meta nfproto ipv6 drop
    oifname "jl*" drop
    ip daddr @allowed goto admit
    ip daddr @refused reject with icmp admin-prohibited
    goto admit
  }}
  chain admit {{
    ct state invalid drop
    ct status confirmed accept
    update @opened {{ iif limit rate over {most.per_minute}/minute burst {most.burst} packets }} \
      goto refuse
    add @open {{ iif ct count over {most.open} }} goto refuse
    ct mark set ip saddr map @marks
    meta l4proto tcp ct timeout set "closed"
    accept
  }}
  chain refuse {{
    meta l4proto tcp reject with tcp reset
    reject with icmp admin-prohibited
  }}
{_bandwidth(policy, ours)}
  chain forward {{
    type filter hook forward priority filter - 10
    iifname {ours} jump judge
    oifname {ours} ct state established,related accept
    oifname {ours} drop
  }}
  chain input {{
    type filter hook input priority filter - 10
    iifname {ours} ct state established,related accept
    iifname {ours} ip daddr @resolvers meta l4proto {{ tcp, udp }} th dport 53 goto admit
    iifname {ours} drop
  }}
  chain postrouting {{
    type nat hook postrouting priority srcnat
    ip saddr {LINKS} oifname != "jl*" masquerade
  }}
}}
"""  # noqa: S608 - nftables, not SQL


def _bandwidth(policy: EgressPolicy, ours: str) -> str:
    """Return the chains that drop what is above the bandwidth.

    The kernel's bucket holds what may pass in a second: a packet here may be 64 KiB, until it is
    divided for the network, and TCP sends in bursts.
    """
    if policy.mbps is None:
        return ""
    rate = policy.mbps * 1_000_000 // 8
    each = f"limit rate over {rate} bytes/second"
    links = "type iface_index; size 65535; flags dynamic,timeout; timeout 1m;"
    return f"""
  set sent {{ {links} }}
  set received {{ {links} }}
  chain prerouting {{
    type filter hook prerouting priority raw
    iifname {ours} update @sent {{ iif {each} }} drop
  }}
  chain leaving {{
    type filter hook postrouting priority filter
    oifname {ours} update @received {{ oif {each} }} drop
  }}
"""


def _set(name: str, elements: Iterable[object]) -> str:
    listed = ", ".join(map(str, elements))
    body = f" elements = {{ {listed} }}" if listed else ""
    return f"set {name} {{ type ipv4_addr; flags interval;{body} }}"


def tables() -> set[int]:
    """Return the blocks that have rules; none if nftables fails."""
    listed = ""
    with contextlib.suppress(SandboxRefused):
        listed = nft.run("list tables inet")
    lines = (line.split() for line in listed.splitlines())
    names = {words[-1].removeprefix("joblane-") for words in lines if "joblane-" in words[-1]}
    return {int(name) for name in names if name.isdecimal()}


def forget(block: int) -> None:
    """Remove the rules of a block, its links and their connections.

    A link is removed with its job's namespace, but connections that were not closed keep that
    alive for some minutes.
    """
    delete_links(block)
    with contextlib.suppress(OSError):
        _delete_connections(block)
    nft.run(f"delete table inet joblane-{block}")


def delete_links(block: int) -> None:
    """Remove the links of a block."""
    for _, name in socket.if_nameindex():
        if name.startswith(f"jl{block}-"):
            with contextlib.suppress(OSError):  # it was removed with its namespace
                netlink.delete_link(name)


def _address_of(block: int, link: int) -> ipaddress.IPv4Address:
    """Return a job's address. As a number it is the mark of the job's connections."""
    return LINKS[block * _BLOCK + link * 2 + 1]


def _delete_connections(block: int) -> None:
    """Remove what the links of a block have in the table of connections."""
    netlink.delete_connections(int(LINKS[block * _BLOCK]), 2**32 - _BLOCK)


def _refusal(failed: OSError | HostLacks) -> str:
    """Say what the kernel lacks; of what has another reason, the error."""
    modules = egress_modules.lacking()
    if not modules:
        return failed.reason if isinstance(failed, HostLacks) else f"egress: {failed}"
    word = "module" if len(modules) == 1 else "modules"
    return (
        f"the kernel {os.uname().release} lacks the {word} {', '.join(modules)}; "
        "boot one that has them all"
    )


class Egress:
    """The links of one launcher, whose lock guards them."""

    def __init__(self, policy: EgressPolicy, block: int) -> None:
        """Load the rules.

        Raises HostLacks with what the kernel lacks, and SandboxRefused for a policy that no host
        can apply.
        """
        self.resolvers = policy.resolvers or host_resolvers()
        loopback = [a for a in self.resolvers if a.startswith("127.")]
        if not self.resolvers or loopback:
            raise SandboxRefused(
                f"egress: jobs cannot reach this host's DNS servers ({', '.join(loopback)}); "
                "name others as resolvers in the egress policy"
            )
        self._block = block
        self._free = collections.deque(range(LINKS_EACH))
        self._links: dict[int, int] = {}
        """By the number of the slot."""
        parse(policy)
        delete_links(block)
        try:
            _delete_connections(block)  # also loads the module that has the table
            most = connections(policy, int(_CONNTRACK_MAX.read_text()))
            egress_modules.try_link(f"jl{block}-try")
            nft.run(rules(policy, self.resolvers, block, most))
        except (OSError, HostLacks) as failed:
            raise HostLacks(_refusal(failed)) from failed
        forwarding = Path("/proc/sys/net/ipv4/ip_forward")
        try:
            if forwarding.read_text().strip() != "1":
                forwarding.write_text("1")
        except OSError as failed:
            raise SandboxRefused(f"egress: the host must forward packets: {failed}") from failed

    def attach(self, slot: int, pid: int) -> tuple[str, str]:
        """Link the namespace of a slot's process; returns the job's address and its gateway."""
        if not self._free:
            raise SandboxRefused("egress: every link of this launcher is in use")
        link = self._links[slot] = self._free.popleft()
        address = _address_of(self._block, link)
        own, gateway = str(address), str(address - 1)
        name = f"jl{self._block}-{link}"
        try:
            netlink.add_veth(name, "eth0", pid)
            netlink.configure(name, gateway)
        except OSError as failed:
            raise SandboxRefused(f"egress: {failed}") from failed
        return own, gateway

    def release(self, slot: int) -> None:
        """Remove the link of a slot, unless the end of the job's namespace has removed it.

        Connections that the job has not closed would have their entries for days, and jobs one
        after another would fill the table.
        """
        link = self._links.pop(slot, None)
        if link is not None:
            with contextlib.suppress(OSError):
                netlink.delete_link(f"jl{self._block}-{link}")
            with contextlib.suppress(OSError):
                mark = int(_address_of(self._block, link))
                netlink.delete_connections(mark, 2**32 - 1)
            self._free.append(link)

    def close(self) -> None:
        """Remove the links and the rules."""
        forget(self._block)
