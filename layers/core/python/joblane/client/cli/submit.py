"""The commands `run` and `submit`."""

import inspect
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Any, Literal, cast

import typer

from joblane.client.cli import exit_codes, terminal
from joblane.client.cli.options import GiveUp, IdempotencyKey, Json, Raw, connect
from joblane.client.errors import AnswerError, JoblaneError, ServerError, UnreachableError

if TYPE_CHECKING:
    from joblane.client.answers import LogRecord
    from joblane.client.clients import Client
    from joblane.client.refs import JobRef


RESOURCES = ("cpus", "memory_mb", "pids", "cores", "io_bps", "tmp_mb")

UNITS_S = {"s": 1, "m": 60, "h": 3600, "d": 86_400}

commands = typer.Typer()

_USAGE = "[OPTIONS] --"
_CONTEXT = {"allow_interspersed_args": False}


@dataclass(frozen=True, slots=True, kw_only=True)
class JobOptions:
    """Options of `run` and `submit` that describe a job."""

    command: Annotated[
        list[str],
        typer.Argument(metavar="CMD", help="The program and its arguments.", show_default=False),
    ]
    name: Annotated[str | None, typer.Option(help="Name of the job, up to 128 characters.")] = None
    queue: Annotated[str | None, typer.Option(help="Queue (default: the API's default).")] = None
    priority: Annotated[
        Literal["high", "default", "low"] | None,
        typer.Option(help="Priority, which selects the lane of the queue."),
    ] = None
    cpus: Annotated[float | None, typer.Option(help="CPU limit in cores, such as 0.5.")] = None
    memory_mb: Annotated[
        int | None, typer.Option(help="Memory limit in MiB; the job is killed above it.")
    ] = None
    pids: Annotated[int | None, typer.Option(help="Maximum number of processes and threads.")] = (
        None
    )
    cores: Annotated[str | None, typer.Option(help="CPU cores to run on, such as 0-2,5.")] = None
    io_bps: Annotated[
        int | None, typer.Option(help="Disk bandwidth limit in bytes per second.")
    ] = None
    tmp_mb: Annotated[
        int | None, typer.Option(help="Size of /tmp and of the work directory, in MiB each.")
    ] = None
    network: Annotated[
        Literal["none", "egress", "host"] | None,
        typer.Option(
            help="none: loopback (default); egress: outbound through NAT; host: the instance's."
        ),
    ] = None
    env: Annotated[
        list[str] | None,
        typer.Option(metavar="K=V", help="Environment variable; can be repeated."),
    ] = None
    secret_env: Annotated[
        list[str] | None,
        typer.Option(
            metavar="K=REF",
            help="Variable set from a secret: K=secretsmanager:NAME[#KEY] or K=ssm:/PATH.",
        ),
    ] = None
    timeout_s: Annotated[float | None, typer.Option(help="Timeout of each attempt in seconds.")] = (
        None
    )
    heartbeat_timeout_s: Annotated[
        float | None,
        typer.Option(
            help="Stop an attempt that sends nothing on descriptor 3 for so many seconds."
        ),
    ] = None
    attempts: Annotated[
        int | None,
        typer.Option(help="Maximum number of attempts (default: 1 for run, 3 for submit)."),
    ] = None
    backoff_s: Annotated[
        list[float] | None,
        typer.Option(
            metavar="SECONDS",
            help="Maximum delay after the first attempt; repeat for later attempts.",
        ),
    ] = None
    restart: Annotated[
        bool,
        typer.Option(
            "--restart/--no-restart",
            help="--no-restart: never run the job twice, even if its agent fails.",
        ),
    ] = True
    run_at: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="Earliest start time (RFC 3339, or +5m)."),
    ] = None
    deadline: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            help="Latest end time (RFC 3339, or +2h); then the job expires or is stopped.",
        ),
    ] = None
    label: Annotated[
        list[str] | None,
        typer.Option(metavar="K=V", help="Label; can be repeated."),
    ] = None
    items: Annotated[
        int | None,
        typer.Option(
            metavar="N", min=1, help="Number of work items in this job, for queue statistics."
        ),
    ] = None

    idempotency_key: IdempotencyKey = None

    def submit(self, client: "Client", *, attempts: int | None = None) -> "JobRef":
        """Submit the job; `attempts` is the default of --attempts. Raises `JoblaneError`."""
        try:
            return client.submit(self.command, **self._fields(attempts))
        except (UnreachableError, ServerError, AnswerError) as error:
            if not isinstance(error, UnreachableError) or error.sent:
                terminal.note("the job may have been accepted; check with: joblane ls")
            raise

    def _fields(self, attempts: int | None) -> dict[str, Any]:
        """Fields of the submission: each is the option of its name, except those set here."""
        own = {field.name: getattr(self, field.name) for field in fields(self)}
        del own["command"]
        resources = {name: own.pop(name) for name in RESOURCES}
        max_attempts = own.pop("attempts")
        retry = {
            "max_attempts": attempts if max_attempts is None else max_attempts,
            "backoff_s": own.pop("backoff_s") or None,
        }
        own |= {
            "resources": _given(resources) or None,
            "retry": _given(retry) or None,
            "env": _pairs("--env", self.env),
            "secret_env": _pairs("--secret-env", self.secret_env),
            "labels": _pairs("--label", own.pop("label")),
            "restartable": None if own.pop("restart") else False,
            "run_at": _time("--run-at", self.run_at),
            "deadline": _time("--deadline", self.deadline),
        }
        return _given(own)


def _given(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}


def _pairs(option: str, texts: Sequence[str] | None) -> dict[str, str] | None:
    if not texts:
        return None
    found: dict[str, str] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals or not key:
            raise typer.BadParameter(f"{option} must be KEY=VALUE")
        found[key] = value
    return found


def _time(option: str, text: str | None) -> str | None:
    """Make +5m an RFC 3339 time; the API checks every other text."""
    if text is None or not text.startswith("+"):
        return text
    number, unit = text[1:-1], text[-1]
    if not (number.isascii() and number.isdecimal()) or unit not in UNITS_S:
        raise typer.BadParameter(f"{option} must be RFC 3339 or such as +30s, +5m, +2h, +1d")
    try:
        then = datetime.now(UTC) + timedelta(seconds=int(number) * UNITS_S[unit])
    except OverflowError as error:
        raise typer.BadParameter(f"{option} is too far in the future") from error
    return then.strftime("%Y-%m-%dT%H:%M:%SZ")


def _with_job_options(command: Callable[..., None]) -> Callable[..., None]:
    """Make a command with a parameter for each field of `JobOptions` and its own keywords.

    typer reads the signature of a function; this one is computed, so that options are written once.
    """

    def call(ctx: typer.Context, **values: Any) -> None:  # noqa: ANN401 - typer converted them
        job = JobOptions(**{field.name: values.pop(field.name) for field in fields(JobOptions)})
        command(ctx, job, **values)

    kind = inspect.Parameter.KEYWORD_ONLY
    parameters = [
        inspect.Parameter("ctx", kind, annotation=typer.Context),
        *(
            inspect.Parameter(
                field.name,
                kind,
                annotation=field.type,
                default=inspect.Parameter.empty if field.default is MISSING else field.default,
            )
            for field in fields(JobOptions)
        ),
        *(own for own in inspect.signature(command).parameters.values() if own.kind is kind),
    ]
    signed = cast("Any", call)
    signed.__signature__ = inspect.Signature(parameters)
    signed.__doc__ = command.__doc__
    return call


@commands.command(
    "run", options_metavar=_USAGE, epilog=exit_codes.RUN_EPILOG, context_settings=_CONTEXT
)
@_with_job_options
def run(
    ctx: typer.Context,
    options: JobOptions,
    *,
    raw: Raw = False,
    json: Json = False,
    give_up_s: GiveUp = 300,
) -> None:
    """Submit a job, follow its output, exit with its exit code.

    The output is printed byte for byte; a terminal shows control characters other than colours
    escaped unless --raw is given. Ctrl-C asks whether to cancel the job; a second Ctrl-C, or
    no terminal, leaves it running. The job has one attempt unless --attempts is given. --json
    prints lines: {"submitted": job}, {"log": record} for each record, {"ended": job}.
    """
    client = connect(ctx)
    try:
        job = options.submit(client, attempts=1)
    except KeyboardInterrupt as error:
        terminal.note("interrupted while submitting; check with: joblane ls")
        raise typer.Exit(exit_codes.INTERRUPTED) from error
    try:
        _follow(client, job, raw=raw, as_json=json, give_up_s=give_up_s)
    except KeyboardInterrupt as error:
        _interrupted(client, job)
        raise typer.Exit(exit_codes.INTERRUPTED) from error
    except JoblaneError as error:
        terminal.explain(error)
        terminal.note(f"job {job.id} continues; follow it with: joblane logs -f {job.id}")
        raise typer.Exit(exit_codes.of_error(error)) from error
    raise typer.Exit(exit_codes.of_job(job.data))


def _interrupted(client: "Client", job: "JobRef") -> None:
    """Cancel the job if the person confirms; a second Ctrl-C leaves it running."""
    try:
        if _confirms_cancel(job):
            note = str(client.cancel(job.id).data.get("note") or "cancelled")
            terminal.note(f"job {job.id}: {note}")
            return
    except KeyboardInterrupt:
        terminal.write(b"\n", stderr=True)  # ends the line of the question
    except JoblaneError as error:
        terminal.explain(error)
    terminal.note(
        f"job {job.id} continues; follow it with: joblane logs -f {job.id}"
        f" or cancel it with: joblane cancel {job.id}"
    )


def _confirms_cancel(job: "JobRef") -> bool:
    if not (terminal.is_terminal(sys.stdin) and terminal.is_terminal(sys.stderr)):
        return False
    terminal.write(f"\njoblane: cancel job {job.id}? [y/N] ".encode(), stderr=True)
    return sys.stdin.readline().strip().lower() in {"y", "yes"}


def _follow(client: "Client", job: "JobRef", *, raw: bool, as_json: bool, give_up_s: float) -> None:
    from joblane.client.cli.log_follower import LogFollower, LogWriter  # noqa: PLC0415

    if as_json:
        terminal.json_line({"submitted": job.data})
    elif terminal.is_terminal(sys.stderr):
        terminal.note(f"job {job.id}")
    writer = LogWriter(raw=raw)
    try:
        LogFollower(client, give_up_s, _log_lines if as_json else writer).follow(job.id)
    finally:
        writer.end()
    job.wait()
    if as_json:
        terminal.json_line({"ended": job.data})
    if job.state != "completed":
        terminal.note(f"job {job.id} {job.state}: {job.reason or 'no reason given'}")


def _log_lines(records: Sequence["LogRecord"]) -> None:
    for piece in records:
        terminal.json_line({"log": piece.entry})


@commands.command("submit", options_metavar=_USAGE, context_settings=_CONTEXT)
@_with_job_options
def submit(ctx: typer.Context, options: JobOptions, *, json: Json = False) -> None:
    """Submit a job and print its id; with --json, the job."""
    job = options.submit(connect(ctx))
    terminal.show(job.data, lambda: job.id, as_json=json)
