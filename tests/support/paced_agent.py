"""An agent with a pace of its own: `paced_agent.py HEARTBEAT_S LEASE_S MARGIN_S OPTION...`.

All else is `joblane agent`, so a test of what happens when a lease ends need not wait for minutes.
"""

import sys

from ec2_agent.__main__ import main
from ec2_agent.settings import Pace

if __name__ == "__main__":
    heartbeat_s, lease_s, margin_s, *options = sys.argv[1:]
    sys.exit(main(["run", *options], Pace(float(heartbeat_s), int(lease_s), float(margin_s))))
