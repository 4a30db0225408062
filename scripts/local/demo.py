"""scripts/demo: starts Joblane on this machine, runs some jobs, and removes everything."""

import shlex
import subprocess
import sys
import time
from dataclasses import dataclass

from scripts.local import keeping
from scripts.local.agent import best_isolation
from scripts.local.cloud import Cloud, running_cloud
from scripts.local.command import listen_on, port_from, run
from scripts.local.deploy import BIN
from scripts.local.errors import LocalError
from scripts.local.progress import say, shown_step

JOB_TIMEOUT_S = 60.0


@dataclass(frozen=True)
class Show:
    """One job of the demo: what it shows, its command, and its expected end."""

    title: str
    command: str
    exit_code: int


SHOWS = (
    Show(
        "A job that succeeds. It sees its own host, its own processes, and no network",
        "run -- sh -c 'echo hello from $(hostname), process $$; id; ls /proc | head -3'",
        0,
    ),
    Show(
        "A job that fails: its exit code becomes that of joblane run",
        "run -- sh -c 'echo reading tickets.csv; cat tickets.csv; exit 3'",
        3,
    ),
    Show(
        "A job that runs for longer than it may: it ends, with all that it started",
        "run --timeout-s 1 -- sh -c 'echo working; sleep 600 & sleep 600'",
        124,
    ),
)

MEMORY_SHOW = Show(
    "A job that takes more memory than it may: the kernel ends it, and nothing else",
    "run --memory-mb 64 -- python3 -c 'x = [0] * 64 * 1024 ** 2'",
    137,
)
"""Only on hosts that can enforce it (isolation `full` needs cgroup v2)."""


def main() -> int:
    """Start everything, run the jobs, print the results, and remove everything."""
    port = port_from(sys.argv[1:], "scripts/demo", __doc__ or "")
    say("Joblane on this machine: a local AWS, the real stacks, a real agent")
    with running_cloud(keeping.run_folder("demo"), listen_on(port), shown_step) as cloud:
        isolation = best_isolation()
        with shown_step(f"starting an agent ({isolation} isolation)"):
            cloud.start_agent(isolation=isolation)
        shows = (*SHOWS, MEMORY_SHOW) if isolation == "full" else SHOWS
        for number, show in enumerate(shows, 1):
            _present(cloud, show, f"{number}/{len(shows)}")
        print("\nAll jobs of this run:\n\n$ joblane ls", flush=True)
        _joblane(cloud, "ls")
        if isolation != "full":
            print(
                "\nThis host has no cgroup v2 to give, so memory and CPU limits were not shown; "
                "`.venv/bin/joblane doctor` says what is missing."
            )
        print()
        say("Shutting down")
    print(
        "Everything is removed. scripts/up starts the same, keeps it running, and prints the "
        "address of its console."
    )
    return 0


def _present(cloud: Cloud, show: Show, number: str) -> None:
    """Run one job by the command line. Raises LocalError when it does not end as expected."""
    print(f"\n{number}  {show.title}\n\n$ joblane {show.command}", flush=True)
    began = time.monotonic()
    code = _joblane(cloud, show.command)
    took = time.monotonic() - began
    print(f"(exit code {code}, {took:.2f} s)", flush=True)
    if code != show.exit_code:
        cloud.ministack.require_alive()
        raise LocalError(f"the job should have exited with {show.exit_code}, not {code}")


def _joblane(cloud: Cloud, arguments: str) -> int:
    """Run the command line with this cloud's environment; its output goes to the terminal."""
    env = {"PATH": f"{BIN}:/usr/bin:/bin", "LANG": "C.UTF-8", **cloud.environment()}
    command = [str(BIN / "joblane"), *shlex.split(arguments)]
    try:
        return subprocess.run(
            command, env=env, timeout=JOB_TIMEOUT_S, check=False, stdin=subprocess.DEVNULL
        ).returncode
    except subprocess.TimeoutExpired:
        raise LocalError(
            f"`joblane {arguments}` did not end within {JOB_TIMEOUT_S:.0f} s; "
            f"the logs are in {cloud.run_dir}"
        ) from None


if __name__ == "__main__":
    sys.exit(run("scripts/demo", main))
