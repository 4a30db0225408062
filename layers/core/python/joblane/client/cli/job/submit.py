"""The commands `run` and `submit`."""

import secrets
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from joblane.client.answers import JobJson, json_of
from joblane.client.cli import exit_codes
from joblane.client.cli.files.files import take_home
from joblane.client.cli.job.options import JobOptions
from joblane.client.cli.job.warning import note_warning
from joblane.client.cli.options import Each, GiveUp, Json, Raw, connect, with_fields
from joblane.client.cli.signals import Terminated, exit_code
from joblane.client.cli.text import terminal
from joblane.client.errors import JoblaneError

if TYPE_CHECKING:
    from joblane.client.answers import LogRecord
    from joblane.client.cli.job.each_submit import EachSubmission
    from joblane.client.clients import Client
    from joblane.client.refs import JobRef


commands = typer.Typer()

_USAGE = "[OPTIONS] --"
_CONTEXT = {"allow_interspersed_args": False}


@commands.command(
    "run", options_metavar=_USAGE, epilog=exit_codes.RUN_EPILOG, context_settings=_CONTEXT
)
@with_fields(JobOptions)
def run(
    ctx: typer.Context,
    options: JobOptions,
    *,
    output_dir: Annotated[
        Path, typer.Option(metavar="DIR", help="With -o: where to write the files.")
    ] = Path(),
    replace: Annotated[
        bool, typer.Option("--replace", help="With -o: replace existing files.")
    ] = False,
    raw: Raw = False,
    json: Json = False,
    give_up_s: GiveUp = 300,
    each: Each = None,
) -> None:
    """Submit a job, follow its output, exit with its exit code.

    Standard input is the job's unless it is a terminal: `joblane run -- bash -s < my.sh` runs a
    local script. -i uploads files; -o downloads files when the job has ended, in any state. An
    existing file is replaced only with --replace, or if -i uploaded it and it has not changed. A
    name that begins with a dot is written only if -o gives it. Nothing is written below .git.

    The output is printed byte for byte; a terminal shows control characters other than colours and
    carriage returns escaped unless --raw is given. Ctrl-C asks whether to cancel the job; a second
    Ctrl-C, or no terminal, leaves it running, as do SIGTERM, SIGHUP and a closed pipe. The job has
    one attempt unless --attempts is given. --json prints lines: {"submitted": job}, {"log": record}
    for each record, {"ended": job}, and with -o {"outputs": [...]}.

    With --target _all or a label, the command runs on every agent that matches. When a host has
    ended, a line on stderr shows its result, followed by its output with the host in front of each
    line; the exit code is 0 if all completed. --json then has {"member": member} and "agent" too.

    With --array or --array-values a terminal shows a bar; at the end stderr has the indices that
    failed, and the last lines of their stderr. Output is not shown, and files are not downloaded:
    see `joblane logs`, `results` and `download` with the id of the group.

    With --type the result of the job goes to stdout, as JSON, and its output to stderr.

    With --each FILE, all jobs of the file are submitted, as `joblane submit --each` does it, and
    waited for. Those that do not complete are named on stderr; output is not shown, and files are
    not downloaded. The exit code is 0 if all completed.
    """
    if each is not None:
        from joblane.client.cli.job.each_submit import run_each  # few use it

        run_each(_read_each(ctx, options, each, attempts=1, as_json=json), give_up_s)
        return
    client = connect(ctx)
    try:
        job, submitted = options.submit(client, attempts=1)
    except KeyboardInterrupt as error:
        terminal.note("interrupted while submitting; check with: joblane ls")
        raise typer.Exit(exit_code(error)) from error
    _note_admission(job)
    try:
        follow = _follow_group if job.is_group else _follow
        ended = follow(client, job, raw=raw, as_json=json, give_up_s=give_up_s)
    except KeyboardInterrupt as error:
        _handle_interrupt(client, job, asks=not isinstance(error, Terminated))
        raise typer.Exit(exit_code(error)) from error
    except JoblaneError as error:
        terminal.explain(error)
        terminal.note(f"{_what(job)} continues; follow it with: joblane logs -f {job.id}")
        raise typer.Exit(exit_codes.of_error(error)) from error
    except OSError:  # the output cannot be written, such as a pipe whose reader has ended
        if not job.ended:
            _note_continues(job)
        raise
    code = exit_codes.of_job(ended)
    if options.outputs:
        home = partial(take_home, client, job, output_dir, submitted, replace=replace, as_json=json)
        code = _take_home(job, home) or code
    raise typer.Exit(code)


def _take_home(job: "JobRef", home: Callable[[], int]) -> int:
    """Download the output files. Returns the exit code of an error, 0 without one."""
    try:
        code = home()
    except JoblaneError as error:
        terminal.explain(error)
        code = exit_codes.of_error(error)
    except KeyboardInterrupt as error:
        code = exit_code(error)
    if code:
        terminal.note(f"the files are kept; get them with: joblane download {job.id}")
    return code


def _note_admission(job: "JobRef") -> None:
    """Say on stderr what the job's key has done, and what keeps all agents from starting it."""
    match job.admission:
        case "coalesced":
            terminal.note(f"its key is full; job {job.id} stands for this one, which was not made")
        case "replaced":
            terminal.note(f"job {job.replaced} of the same key is skipped for this one")
    note_warning(job)


def _handle_interrupt(client: "Client", job: "JobRef", *, asks: bool) -> None:
    """Cancel the job if the person confirms; a second Ctrl-C leaves it running."""
    try:
        if asks and _confirms_cancel(job):
            terminal.note(f"{_what(job)}: {_cancel(client, job)}")
            return
    except KeyboardInterrupt:
        terminal.write(b"\n", stderr=True)  # ends the line of the question
    except JoblaneError as error:
        terminal.explain(error)
    _note_continues(job)


def _note_continues(job: "JobRef") -> None:
    terminal.note(
        f"{_what(job)} continues; follow it with: joblane logs -f {job.id}"
        f" or cancel it with: joblane cancel {job.id}"
    )


def _cancel(client: "Client", job: "JobRef") -> str:
    """Cancel the job, or all members of the group. Returns what was done."""
    if not job.is_group:
        return str(client.cancel(job.id).note or "cancelled")
    done = sum(page.cancelled for page in client.groups.cancel(job.id))
    return f"{done} of its jobs are cancelled; those that had not begun never do"


def _what(job: "JobRef") -> str:
    return f"{'group' if job.is_group else 'job'} {job.id}"


def _confirms_cancel(job: "JobRef") -> bool:
    if not terminal.can_ask():
        return False
    terminal.write(b"\n", stderr=True)
    return terminal.confirms(f"cancel {_what(job)}")


def _follow(
    client: "Client", job: "JobRef", *, raw: bool, as_json: bool, give_up_s: float
) -> JobJson:
    from joblane.client.cli.job.log_follower import LogFollower, LogWriter

    if as_json:
        terminal.json_line({"submitted": json_of(job)})
    elif terminal.is_terminal(sys.stderr):
        terminal.note(f"job {job.id}")
    typed = job.data.type is not None
    writer = LogWriter(raw=raw, all_to_stderr=typed)
    try:
        show = _log_lines if as_json else writer
        LogFollower(client, give_up_s, show, writer.end_lines).follow(job.id)
    finally:
        writer.end()
    job.wait()
    if as_json:
        terminal.json_line({"ended": json_of(job)})
    elif typed and job.data.result is not None:
        terminal.document(job.data.result)
    if job.state != "completed":
        terminal.note(f"job {job.id} {job.state}: {job.reason or 'no reason given'}")
    return json_of(job)


def _follow_group(
    client: "Client", job: "JobRef", *, raw: bool, as_json: bool, give_up_s: float
) -> JobJson:
    from joblane.client.cli.group.array_follower import ArrayFollower
    from joblane.client.cli.group.follower import GroupFollower

    if as_json:
        terminal.json_line({"submitted": json_of(job)})
    elif terminal.is_terminal(sys.stderr):
        terminal.note(_what(job))
    if job.data.array is not None:
        group = ArrayFollower(client, give_up_s, job.data.members, as_json=as_json).follow(job.id)
    else:
        group = GroupFollower(client, give_up_s, job.data.members, raw=raw, as_json=as_json).follow(
            job.id
        )
    if as_json:
        terminal.json_line({"ended": group})
    return group


def _log_lines(records: Sequence["LogRecord"]) -> None:
    for piece in records:
        terminal.json_line({"log": piece.entry})


@commands.command("submit", options_metavar=_USAGE, context_settings=_CONTEXT)
@with_fields(JobOptions)
def submit(
    ctx: typer.Context, options: JobOptions, *, json: Json = False, each: Each = None
) -> None:
    """Submit a job and print its id; with --json, the job. Of an array, the id of the group.

    With --each FILE, submit a job for each line of a file, after all were checked. A line is a
    command, quoted as in a shell, or a submission as JSON, {"command": [...], ...}; with a command
    after --, its further arguments; with --type, params as JSON. Other options apply to all jobs; a
    line's own values take precedence. Ids are printed in the order of the lines.
    """
    if each is not None:
        from joblane.client.cli.job.each_submit import submit_each  # few use it

        submit_each(_read_each(ctx, options, each, attempts=None, as_json=json))
        return
    job, _ = options.submit(connect(ctx))
    _note_admission(job)
    terminal.show(json_of(job), lambda: job.id, as_json=json)


def _read_each(
    ctx: typer.Context, options: JobOptions, file: Path, *, attempts: int | None, as_json: bool
) -> "EachSubmission":
    """Read and check the jobs of a file. Raises `typer.BadParameter` and `InputError`."""
    from joblane.client.cli.job.each import read_jobs  # few use it
    from joblane.client.cli.job.each_submit import EachSubmission

    common = options.common(attempts)
    if options.stdin and str(file) == "-":
        raise typer.BadParameter("--stdin and --each - both need standard input")
    lines = read_jobs(file, common)
    client = connect(ctx)
    if files := options.upload(client, read_stdin=False):
        lines = [line.with_files(files) for line in lines]
    key = options.idempotency_key or secrets.token_hex(8)
    again = f"--idempotency-key {key}"
    for option, name in (("--run-at", "run_at"), ("--deadline", "deadline")):
        if common.fields.get(name) not in {None, getattr(options, name)}:
            again += f" {option} {common.fields[name]}"
    if options.idempotency_key is None:
        terminal.note(f"after an interruption, repeat the command with {again}")
    return EachSubmission(client, lines, key, again=again, as_json=as_json)
