"""`python -m ec2_agent`: see command_line.py."""

import sys

from ec2_agent.command_line import main

if __name__ == "__main__":
    sys.exit(main())
