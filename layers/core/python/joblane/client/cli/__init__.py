"""The `joblane` command line; `main` is its entry point.

app.py              global options, errors to exit codes
submit.py           run, submit
files.py            files, outputs, download
read.py             ls, get, logs, health, audit
change.py           cancel, retry, resubmit, hide, delete, dlq, requeue, restart-failed
wait.py             wait
completion.py       completion, and what shells ask for
agents.py, queues.py, conditions.py, types.py, keys.py   one command each
login.py            login, logout
host.py             agent, doctor
each.py, each_submit.py, many.py   --each, and waiting for many jobs
times.py, environment.py, short_ids.py, foreign.py   what people type
options.py          options, and a kind of group, that several commands have
file_options.py     options of run and submit for files and standard input
log_follower.py     following a job's log
exit_codes.py       exit codes
terminal.py         bytes to stdout, notes to stderr
tables.py, job_text.py, queue_text.py, formats.py   answers as text
top.py, top_text.py, attention.py, live.py   the live view, and what needs attention
"""

import sys


def main() -> None:
    """Run the command line and exit."""
    # httpx imports its own command line, and with it click, rich and pygments: 130 of the 200 ms of
    # its import. It works without, as it does where click is not installed.
    sys.modules.setdefault("httpx._main", None)  # type: ignore[arg-type]
    from joblane.client.cli.app import call  # after the line above

    sys.exit(call(sys.argv[1:]))
