"""The `joblane` command line; `main` is its entry point.

app.py      the commands, the global options, errors to exit codes
submit.py   run, submit
read.py     ls, get, logs, health
change.py   cancel, retry, resubmit and what else moves jobs
agents.py, queues.py, conditions.py, audit.py: a verb with verbs of its own each
groups.py   what those share
login.py    login, logout
host.py     agent, doctor: hand over to `ec2_agent`
watch.py    following a log on a terminal
exits.py    exit codes
out.py      bytes to stdout, notes to stderr
"""

import sys


def main() -> None:
    """Run the command line and exit."""
    # httpx imports its own command line, and with it click, rich and pygments, at every start:
    # 130 ms of its 200. In this process nobody wants it; httpx does without, as it does where
    # click is not installed.
    sys.modules.setdefault("httpx._main", None)  # type: ignore[arg-type]
    from client.cli.app import call  # noqa: PLC0415 - after the line above

    sys.exit(call(sys.argv[1:]))
