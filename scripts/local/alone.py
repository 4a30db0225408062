"""scripts/agent: runs one more agent of the local deployment, in the foreground.

    scripts/agent [NAME] [OPTION...]

NAME is its name, `local-2` unless given; `local` is that of scripts/up. The options are those of
`joblane agent`, such as --queue bulk, --label group=web or --threads 2. Ctrl-C drains it.
"""

import os
import sys

from scripts.local import keeping
from scripts.local.command import run
from scripts.local.errors import LocalError

DEFAULT_NAME = "local-2"


def main() -> int:  # noqa: RET503 - execve does not return
    """Become the agent. Raises LocalError when nothing runs, or an agent of that name does."""
    name, *options = sys.argv[1:] or [DEFAULT_NAME]
    if name in ("-h", "--help"):
        print(__doc__)
        return 0
    if name.startswith("-"):
        name, options = DEFAULT_NAME, [name, *options]
    cloud = keeping.load_cloud()
    if cloud is None:
        raise LocalError("there is no local deployment to work for; scripts/up starts one")
    if name in cloud.agents:
        raise LocalError(f"an agent {name} runs already; choose another name: scripts/agent NAME")
    command, env = cloud.agent_command(name, options)
    os.chdir(cloud.run_dir)
    os.execve(command[0], command, env)  # noqa: S606 - the command is ours


if __name__ == "__main__":
    sys.exit(run("scripts/agent", main))
