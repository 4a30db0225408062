"""Remove the leftovers of killed launchers: cgroups, links and rules, named after their block.

Processes that may still use them hold the lock of the block: a slot, a shim, an exiting agent.

    agent A, block 0         job of A, its shim          agent B, block 1
    (killed, and launcher)   runs
                                                         adopts it
                                                         block 0 is locked: skips it
                             ends; figures are read
                             shim exits: lock free
                                                         locks block 0, removes, unlocks
"""

import contextlib
import os
from pathlib import Path

from ec2_agent.sandbox import cgroup, egress, uids
from ec2_agent.sandbox.model import SandboxRefused


def remove(parent: Path | None, *, links: bool) -> None:
    """Remove leftovers that are no longer used; failures are retried by the next call.

    `parent` contains the launchers' cgroups, None without cgroups; `links`: also egress links.
    """
    cgroups = {} if parent is None else cgroup.launcher_cgroups(parent)
    tables = egress.tables() if links else set()
    for block in {*cgroups, *tables}:
        with contextlib.suppress(OSError, SandboxRefused), contextlib.ExitStack() as unlock:
            lock = uids.try_block(block)
            if lock is None:
                continue
            unlock.callback(os.close, lock)
            if block in tables:
                egress.forget(block)
            if block in cgroups:
                cgroup.remove(cgroups[block])
