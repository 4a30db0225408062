"""What launchers that were killed have left: cgroups, links and rules, named after their block.

Whoever may still use them holds the block's lock: a slot, the shim of a job, an agent that ends.

    agent A, block 0         job of A, its shim          agent B, block 1
    (killed, and launcher)   runs
                                                         adopts it
                                                         block 0 is locked: leaves it alone
                             ends; figures are read
                             shim goes: lock free
                                                         locks block 0, removes, unlocks
"""

import contextlib
import os
from pathlib import Path

from ec2_agent.sandbox import cgroup, egress, uids
from ec2_agent.sandbox.model import SandboxRefused


def remove(parent: Path | None, *, links: bool) -> None:
    """Remove what nobody uses any more; what cannot be removed now stays for the next time.

    `parent` has the rooms, None where there are none; `links`: look at those of egress too.
    """
    rooms = {} if parent is None else cgroup.rooms(parent)
    tables = egress.tables() if links else set()
    for block in {*rooms, *tables}:
        with contextlib.suppress(OSError, SandboxRefused), contextlib.ExitStack() as unlock:
            lock = uids.try_block(block)
            if lock is None:
                continue
            unlock.callback(os.close, lock)
            if block in tables:
                egress.forget(block)
            if block in rooms:
                cgroup.remove(rooms[block])
