"""scripts/up: starts a local Joblane and keeps it running."""

import sys

from scripts.local import keeping
from scripts.local.cloud import start_cloud
from scripts.local.command import port_from, run
from scripts.local.errors import LocalError
from scripts.local.people import add_people
from scripts.local.progress import say, shown_step

_NEXT = """
Joblane runs on {endpoint}. Next:

  . .local/env
  joblane run -- sh -c 'echo hello from $(hostname); id'
  joblane ls

The console, where each of the people below can log in:

  {console}

That shell acts as the machine `default` of the tenant demo, role developer. Agents, and queues that
tenants share, are for the role platform:

  (. .local/env-platform; joblane agents)

To act as a person on the command line:

  unset JOBLANE_CLIENT_ID; joblane login

{people}

Logs are in {run_dir}; scripts/down ends it.
"""


def main() -> int:
    """Start everything, write `.local/env`, and leave it running."""
    port = port_from(sys.argv[1:], "scripts/up", __doc__ or "")
    if keeping.running():
        raise LocalError("it is running already (. .local/env uses it); scripts/down ends it")
    keeping.end()  # files of a run that was not ended in order
    say("Starting Joblane on this machine")
    cloud = start_cloud(keeping.RUN_DIR, port, shown_step)
    try:
        with shown_step("starting the agent"):
            cloud.start_agent(options=("--allow-host-network",))  # as joblane.toml says
        people = add_people(cloud)
        keeping.keep(cloud)
    except BaseException as error:
        cloud.stop()
        if not isinstance(error, Exception):  # interrupted: the logs are not needed
            keeping.end()
        raise
    # Only here: the passwords are not stored.
    table = "\n".join(f"  name {who.name:<10} password {who.password}" for who in people)
    print(
        _NEXT.format(
            endpoint=cloud.endpoint, console=cloud.console, run_dir=cloud.run_dir, people=table
        )
    )
    return 0


if __name__ == "__main__":
    sys.exit(run("scripts/up", main))
