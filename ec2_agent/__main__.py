"""`python -m ec2_agent`: see command_line.py."""

import sys

from ec2_agent.undocumented import leave_out_documentation

if __name__ == "__main__":
    leave_out_documentation()
    from ec2_agent.command_line import main

    sys.exit(main())
