"""Which modules of the kernel network `egress` needs, and which of them this host lacks.

The kernel loads them when they are used, so each is tried by what needs it. Their files say
nothing: the agent's unit hides them, and what is built into the kernel has none.
"""

import contextlib
import os
from collections.abc import Callable, Mapping

from ec2_agent.sandbox import netlink, nft

_IN_A_CHAIN = """
table inet joblane-probe {{
  set each {{ type iface_index; size 65535; flags dynamic,timeout; timeout 1m; }}
  chain probe {{ type filter hook forward priority filter; {rule}; }}
}}
"""

RULES: Mapping[str, str] = {
    "nf_tables": "table inet joblane-probe {}",
    "nft_ct": _IN_A_CHAIN.format(rule="ct state established accept"),
    "nft_limit": _IN_A_CHAIN.format(rule="limit rate over 10/minute drop"),
    "nft_connlimit": """
table inet joblane-probe {
  set each { type iface_index; size 65535; flags dynamic; }
  chain probe { add @each { iif ct count over 1 } drop; }
}
""",
    "nft_reject_inet": _IN_A_CHAIN.format(rule="reject with icmp admin-prohibited"),
    "nfnetlink_cttimeout": """
table inet joblane-probe {
  ct timeout closed { protocol tcp; l3proto ip; policy = { time_wait : 10, close : 10 }; }
}
""",
    "nft_masq": """
table inet joblane-probe {
  chain probe { type nat hook postrouting priority srcnat; ip saddr 198.18.0.0/15 masquerade; }
}
""",
}
"""Modules with rules that need them, in the order in which one needs another."""


def lacking(
    takes: Callable[[str], bool] = nft.takes, trials: Mapping[str, Callable[[], None]] | None = None
) -> tuple[str, ...]:
    """Return the modules that this host lacks. Takes some milliseconds for each.

    `takes` says whether the kernel takes rules; `trials` raise OSError if it lacks what they try.
    """
    found = [name for name, rules in RULES.items() if not takes(rules)]
    for name, trial in (_TRIALS if trials is None else trials).items():
        try:
            trial()
        except OSError:
            found.append(name)
    return tuple(found)


def _conntrack() -> None:
    netlink.delete_connections(1, 2**32 - 1)  # of a mark that no connection has


def try_link(name: str = "jl-try") -> None:
    """Make a link as jobs have it, and remove it. Raises OSError."""
    with contextlib.suppress(OSError):
        netlink.delete_link(name)  # of a process that was killed here
    netlink.add_veth(name, f"{name}1", os.getpid())
    with contextlib.suppress(OSError):
        netlink.delete_link(name)


_TRIALS: Mapping[str, Callable[[], None]] = {
    "nf_conntrack_netlink": _conntrack,
    "veth": try_link,
}
