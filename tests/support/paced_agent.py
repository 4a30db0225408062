"""An agent with a pace of its own: `paced_agent.py [--journal-room N] HEARTBEAT LEASE MARGIN ...`.

The three are seconds; more options are those of `joblane agent`, and so is everything else. So a
test need not wait minutes for a lease to end, nor fill a journal with a thousand outcomes.
"""

import argparse
import sys

from ec2_agent.command_line import main
from ec2_agent.outcomes import journal
from ec2_agent.settings import Pace

if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--journal-room", type=int, default=journal.ROOM)
    parser.add_argument("heartbeat_s", type=float)
    parser.add_argument("lease_s", type=int)
    parser.add_argument("margin_s", type=float)
    asked, options = parser.parse_known_args()
    journal.ROOM = asked.journal_room
    sys.exit(main(["run", *options], Pace(asked.heartbeat_s, asked.lease_s, asked.margin_s)))
