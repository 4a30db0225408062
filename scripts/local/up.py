"""scripts/up: starts a local Joblane and keeps it running.

When one runs it is deployed again: after a change of scripts/local/joblane.toml, or of the code.
"""

import sys

from scripts.local import keeping
from scripts.local.agent import KEPT_AGENT, examine_host
from scripts.local.cloud import Cloud, start_cloud
from scripts.local.command import listen_on, port_from, run
from scripts.local.deploy import deploy_again
from scripts.local.errors import LocalError
from scripts.local.people import add_people
from scripts.local.progress import say, shown_step

_AGENT = "local"

_NEXT = """
Joblane runs on {endpoint}. Next:

  . .local/env
  joblane run -- sh -c 'echo hello from $(hostname); id'
  joblane ls

The console, where each of the people below can log in:

  {console}

That shell acts as the machine `default` of the tenant demo, role developer. Other roles have
.local/env-reader, .local/env-operator and .local/env-admin; agents, and queues that tenants
share, are for the role platform:

  (. .local/env-operator; joblane dlq ls)
  (. .local/env-platform; joblane agents)

To act as a person on the command line:

  unset JOBLANE_CLIENT_ID; joblane login

{people}

Tenants, queues, filters, policies and what jobs may notify are in scripts/local/joblane.toml:
scripts/up deploys a change of it. scripts/agent runs one more agent.
{host}
Logs are in {run_dir}; scripts/down ends it.
"""


def main() -> int:
    """Start everything, write `.local/env`, and leave it running; or deploy what runs again."""
    port = port_from(sys.argv[1:], "scripts/up", __doc__ or "")
    if (cloud := keeping.load_cloud()) is not None:
        return _deploy_again(cloud, port)
    keeping.end()  # files and processes of a run that was not ended in order
    say("Starting Joblane on this machine")
    cloud = start_cloud(keeping.RUN_DIR, listen_on(port), shown_step)
    try:
        with shown_step("starting the agent"):
            _start_agent(cloud)
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
            endpoint=cloud.endpoint,
            console=cloud.console,
            run_dir=cloud.run_dir,
            people=table,
            host=describe_host(),
        )
    )
    return 0


def describe_host() -> str:
    """Return what this host cannot limit or give, for people; empty if it has everything."""
    host = examine_host()
    if not host.lacks:
        return ""
    lines = ["", "What this host cannot limit or give (joblane doctor says how to change it):", ""]
    if host.isolation != "full":
        lines.append("  memory, CPU, processes and disk rates of a job: they are not limited")
    return "\n".join([*lines, *(f"  {each}" for each in host.lacks), ""])


def _deploy_again(cloud: Cloud, port: int | None) -> int:
    """Deploy what has changed; the agent restarts, since it reads its queues when it starts."""
    if port not in (None, cloud.ministack.port):
        raise LocalError(f"it runs on port {cloud.ministack.port} already; scripts/down ends it")
    say(f"Joblane runs on {cloud.endpoint}; deploying what has changed")
    cloud.outputs = deploy_again(cloud.ministack, cloud.run_dir, shown_step)
    if _AGENT in cloud.agents:
        with shown_step("restarting the agent"):
            cloud.restart_agent(_AGENT)
            cloud.wait_for_agent(_AGENT)
    else:
        with shown_step("starting the agent"):
            _start_agent(cloud)
    keeping.keep(cloud)
    print("Deployed. Other agents (scripts/agent) serve new queues after a restart.")
    return 0


def _start_agent(cloud: Cloud) -> None:
    # As joblane.toml says of its fleet.
    cloud.start_agent(_AGENT, program=KEPT_AGENT, options=("--allow-host-network",))


if __name__ == "__main__":
    sys.exit(run("scripts/up", main))
