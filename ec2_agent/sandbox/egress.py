"""Network `egress`: a network link per job, NAT, and the refused ranges.

    job's namespace                      host
    eth0 198.18.b.n+1/31 ---- veth ---- jl<block>-<n> 198.18.b.n/31 -- nftables -- uplink

Jobs hold no capability, so none can change its address, route or link. The rules are loaded
once, for all links of a launcher; a new link needs no new rule.
"""

import collections
import contextlib
import ipaddress
import shutil
import socket
import subprocess
from collections.abc import Iterable
from pathlib import Path

from ec2_agent.sandbox import netlink
from ec2_agent.sandbox.model import EgressPolicy, SandboxRefused

Network = ipaddress.IPv4Network

LINKS = ipaddress.ip_network("198.18.0.0/15")
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


def parse(policy: EgressPolicy) -> tuple[list[Network], list[Network]]:
    """Return the (allowed, refused) networks; raises SandboxRefused for an invalid one."""
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


def rules(policy: EgressPolicy, resolvers: tuple[str, ...], block: int) -> str:
    """Return the nftables script for the links of a launcher; it replaces an older one."""
    allowed, refused = parse(policy)
    table, ours = f"inet joblane-{block}", f'"jl{block}-*"'
    return f"""
table {table} {{}}
delete table {table}
table {table} {{
  {_set("refused", ipaddress.collapse_addresses(refused))}
  {_set("allowed", ipaddress.collapse_addresses(allowed))}
  {_set("resolvers", resolvers)}
  chain judge {{
    ct state established,related accept
    ip daddr @resolvers meta l4proto {{ tcp, udp }} th dport 53 accept
    meta nfproto ipv6 drop
    oifname "jl*" drop
    ip daddr @allowed accept
    ip daddr @refused reject with icmp admin-prohibited
    accept
  }}
  chain forward {{
    type filter hook forward priority filter - 10
    iifname {ours} jump judge
    oifname {ours} ct state established,related accept
    oifname {ours} drop
  }}
  chain input {{
    type filter hook input priority filter - 10
    iifname {ours} ip daddr @resolvers meta l4proto {{ tcp, udp }} th dport 53 accept
    iifname {ours} ct state established,related accept
    iifname {ours} drop
  }}
  chain postrouting {{
    type nat hook postrouting priority srcnat
    ip saddr {LINKS} oifname != "jl*" masquerade
  }}
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
        listed = _nft("list tables inet")
    lines = (line.split() for line in listed.splitlines())
    names = {words[-1].removeprefix("joblane-") for words in lines if "joblane-" in words[-1]}
    return {int(name) for name in names if name.isdecimal()}


def forget(block: int) -> None:
    """Remove the rules of a block, and its links.

    A link is removed with its job's namespace, but connections that were not closed keep that
    alive for some minutes.
    """
    delete_links(block)
    _nft(f"delete table inet joblane-{block}")


def delete_links(block: int) -> None:
    """Remove the links of a block."""
    for _, name in socket.if_nameindex():
        if name.startswith(f"jl{block}-"):
            with contextlib.suppress(OSError):  # it was removed with its namespace
                netlink.delete_link(name)


def _nft(script: str) -> str:
    """Run nftables and return its output; raises SandboxRefused if it fails."""
    program = shutil.which("nft", path="/usr/sbin:/sbin:/usr/bin:/bin")
    if program is None:
        raise SandboxRefused("egress needs nftables: install the package nftables")
    done = subprocess.run(
        [program, "-f", "-"], input=script, text=True, capture_output=True, check=False
    )
    if done.returncode:
        raise SandboxRefused(f"egress: nftables refused the rules: {done.stderr.strip()}")
    return done.stdout


class Egress:
    """The links of one launcher, whose lock guards them."""

    def __init__(self, policy: EgressPolicy, block: int) -> None:
        """Load the rules; raises SandboxRefused with what is missing."""
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
        delete_links(block)
        _nft(rules(policy, self.resolvers, block))
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
        base = int(LINKS.network_address) + self._block * 2048 + link * 2
        gateway, own = str(ipaddress.IPv4Address(base)), str(ipaddress.IPv4Address(base + 1))
        name = f"jl{self._block}-{link}"
        try:
            netlink.add_veth(name, "eth0", pid)
            netlink.configure(name, gateway)
        except OSError as failed:
            raise SandboxRefused(f"egress: {failed}") from failed
        return own, gateway

    def release(self, slot: int) -> None:
        """Remove the link of a slot, unless the end of the job's namespace has removed it."""
        link = self._links.pop(slot, None)
        if link is not None:
            with contextlib.suppress(OSError):
                netlink.delete_link(f"jl{self._block}-{link}")
            self._free.append(link)

    def close(self) -> None:
        """Remove the links and the rules."""
        forget(self._block)
