"""The `joblane` command line; `main` is its entry point.

app.py              global options, errors to exit codes
options.py          options, and a kind of group, that several commands have
command_table.py    the commands by name, each with its module
agents.py, conditions.py, keys.py   one command each
login.py            login, logout, token
console.py          console
host.py             agent, doctor
completion.py       completion, and what shells ask for
times.py, foreign.py   what people type
exit_codes.py       exit codes
signals.py          SIGTERM and SIGHUP
job/                run, submit, ls, get, logs, wait, why, cancel, retry, download and the like
files/              files, outputs
queue/, schedule/, typed/   queues; schedules; types
top/                top: the live view, and what needs attention
group/              what the commands do with groups
text/               bytes to stdout, notes to stderr; tables and formats

"""

import sys


def main() -> None:
    """Run the command line and exit."""
    # httpx imports its own command line, and with it click, rich and pygments: 130 of the 200 ms of
    # its import. It works without, as it does where click is not installed.
    sys.modules.setdefault("httpx._main", None)  # type: ignore[arg-type]
    from joblane.client.cli.app import call  # after the line above
    from joblane.client.cli.signals import exit_code, handle_signals

    handle_signals()
    try:
        code = call(sys.argv[1:])
    except KeyboardInterrupt as error:
        code = exit_code(error)
    sys.exit(code)
