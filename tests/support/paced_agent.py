"""An agent with a pace of its own: `paced_agent.py [OPTION] HEARTBEAT LEASE MARGIN ...`.

The three are seconds; more options are those of `joblane agent`, and so is everything else. So a
test need not wait minutes for a lease to end, nor fill a journal with a thousand outcomes.
`--journal-room` is for how many outcomes it has room, `--memory-mb` what its jobs may have
together, as on a host that can limit memory. `--unread-s` is how long output that nobody follows
waits after a job's first chunk. `--settings-s` is how often settings of queues are read. A job that
waits says so after half a second.
"""

import argparse
import sys
from functools import partial

from ec2_agent import core
from ec2_agent.attempt import shipping
from ec2_agent.command_line import main
from ec2_agent.lanes import queue_limits
from ec2_agent.outcomes import journal
from ec2_agent.sandbox.launcher import Launcher
from ec2_agent.serving import desk
from ec2_agent.settings import LeaseTimes

if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--journal-room", type=int, default=journal.ROOM)
    parser.add_argument("--memory-mb", type=int)
    parser.add_argument("--unread-s", type=float)
    parser.add_argument("--settings-s", type=float)
    parser.add_argument("heartbeat_s", type=float)
    parser.add_argument("lease_s", type=int)
    parser.add_argument("margin_s", type=float)
    asked, options = parser.parse_known_args()
    journal.ROOM = asked.journal_room
    setattr(desk, "NOTE_AFTER_S", 0.5)  # noqa: B010 - mypy knows an import
    if asked.memory_mb is not None:
        setattr(Launcher, "memory_mb", asked.memory_mb)  # noqa: B010 - mypy knows a property
    if asked.settings_s is not None:
        read_often = partial(queue_limits.QueueLimits, read_every_s=asked.settings_s)
        setattr(core, "QueueLimits", read_often)  # noqa: B010 - mypy knows a class
    if asked.unread_s is not None:
        shipping.NEXT_AFTER_S = (asked.unread_s, asked.unread_s, asked.unread_s)
        shipping.LATER_AFTER_S = asked.unread_s
    sys.exit(main(["run", *options], LeaseTimes(asked.heartbeat_s, asked.lease_s, asked.margin_s)))
