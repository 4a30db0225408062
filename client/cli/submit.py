"""The verbs that submit: `run` and `submit`."""

import inspect
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields
from typing import TYPE_CHECKING, Annotated, Any, Literal, cast

import typer

from client.cli import exits, out
from client.errors import AnswerError, JoblaneError, ServerError, UnreachableError

if TYPE_CHECKING:
    from client.api import Client, Job
    from client.wire import LogRecord

Json = Annotated[bool, typer.Option("--json", help="Write JSON instead of text.")]

GiveUp = Annotated[
    float,
    typer.Option(
        "--give-up-s",
        metavar="SECONDS",
        min=0,
        help="Stop following when the API has not answered for this long.",
    ),
]

_USAGE = "[OPTIONS] --"
_VERB = {"allow_interspersed_args": False}


@dataclass(frozen=True, slots=True, kw_only=True)
class JobOptions:
    """The options that describe a job, one a field; `run` and `submit` share them."""

    command: Annotated[
        list[str],
        typer.Argument(metavar="CMD", help="The program and its arguments.", show_default=False),
    ]
    queue: Annotated[str | None, typer.Option(help="Queue; the API chooses when not given.")] = None
    priority: Annotated[
        Literal["high", "default", "low"] | None, typer.Option(help="Lane of the queue.")
    ] = None
    cpus: Annotated[float | None, typer.Option(help="CPU bandwidth: 0.5 is half a core.")] = None
    memory_mb: Annotated[int | None, typer.Option(help="Memory, MiB; killed above it.")] = None
    pids: Annotated[int | None, typer.Option(help="Most processes and threads at once.")] = None
    cores: Annotated[str | None, typer.Option(help="Cores to run on, such as 0-2,5.")] = None
    io_bps: Annotated[int | None, typer.Option(help="Disk bytes a second, read and write.")] = None
    tmp_mb: Annotated[int | None, typer.Option(help="Size of /tmp and of the work directory.")] = (
        None
    )
    network: Annotated[
        Literal["none", "egress", "host"] | None,
        typer.Option(
            help="none: loopback only (default); egress: out through NAT; host: the instance's own."
        ),
    ] = None
    env: Annotated[
        list[str] | None,
        typer.Option(metavar="K=V", help="Environment of the job; may be repeated."),
    ] = None
    secret_env: Annotated[
        list[str] | None,
        typer.Option(
            metavar="K=REF",
            help="Variable and the name of its secret: secretsmanager:NAME[#KEY] or ssm:/PATH.",
        ),
    ] = None
    timeout_s: Annotated[
        float | None, typer.Option(help="Most seconds that one attempt may run.")
    ] = None
    attempts: Annotated[
        int | None, typer.Option(help="Attempts in all (run: 1, submit: 3 when not given).")
    ] = None
    backoff_s: Annotated[
        list[float] | None,
        typer.Option(
            metavar="SECONDS",
            help="Most seconds of wait after an attempt; repeat for the next ones.",
        ),
    ] = None
    restart: Annotated[
        bool,
        typer.Option(
            "--restart/--no-restart", help="--no-restart: never start it twice, whatever dies."
        ),
    ] = True
    run_at: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="Start not before; UTC, such as 2026-11-21T02:00:00Z."),
    ] = None
    deadline: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="Expire if not done by then; UTC, as --run-at."),
    ] = None
    label: Annotated[
        list[str] | None,
        typer.Option(metavar="K=V", help="Label to find the job by; may be repeated."),
    ] = None
    items: Annotated[
        int | None,
        typer.Option(metavar="N", min=1, help="Things of yours that it does, to be counted."),
    ] = None

    idempotency_key: Annotated[
        str | None,
        typer.Option(
            metavar="KEY",
            help="Submit once, however often it is sent within a day; such as a UUID.",
        ),
    ] = None

    def submit(self, client: "Client", *, attempts: int | None = None) -> "Job":
        """Submit it; `attempts` holds when the options say nothing. Raises `JoblaneError`."""
        try:
            return client.submit(self.command, **self._fields(attempts))
        except (UnreachableError, ServerError, AnswerError) as error:
            if not isinstance(error, UnreachableError) or error.sent:
                out.note("the job may have been accepted all the same: joblane ls shows it")
            raise

    def _fields(self, attempts: int | None) -> dict[str, Any]:
        resources = _given(
            cpus=self.cpus,
            memory_mb=self.memory_mb,
            pids=self.pids,
            cores=self.cores,
            io_bps=self.io_bps,
            tmp_mb=self.tmp_mb,
        )
        retry = _given(
            max_attempts=self.attempts if self.attempts is not None else attempts,
            backoff_s=self.backoff_s or None,
        )
        return _given(
            queue=self.queue,
            priority=self.priority,
            resources=resources or None,
            network=self.network,
            env=_pairs("--env", self.env),
            secret_env=_pairs("--secret-env", self.secret_env),
            timeout_s=self.timeout_s,
            restartable=None if self.restart else False,
            retry=retry or None,
            labels=_pairs("--label", self.label),
            items=self.items,
            run_at=self.run_at,
            deadline=self.deadline,
            idempotency_key=self.idempotency_key,
        )


def _given(**values: object) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}


def _pairs(option: str, texts: Sequence[str] | None) -> dict[str, str] | None:
    if not texts:
        return None
    found: dict[str, str] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals or not key:
            raise typer.BadParameter(f"{option} wants KEY=VALUE")
        found[key] = value
    return found


Verb = Callable[[typer.Context, JobOptions, Mapping[str, Any]], None]


def _with_job_options(verb: Verb, own: Callable[..., None]) -> Callable[..., None]:
    """Make a function with a parameter for each field of `JobOptions` and each one of `own`.

    typer reads a function's signature; this writes it, so that the options stand once.
    """

    def call(ctx: typer.Context, **values: Any) -> None:  # noqa: ANN401 - typer converted them
        job = JobOptions(**{field.name: values.pop(field.name) for field in fields(JobOptions)})
        verb(ctx, job, values)

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
        *inspect.signature(own).parameters.values(),
    ]
    signed = cast("Any", call)
    signed.__signature__ = inspect.Signature(parameters)
    signed.__doc__ = verb.__doc__
    return call


def _submit(ctx: typer.Context, options: JobOptions, own: Mapping[str, Any]) -> None:
    """Submit a job and print its id.

    --json prints the job.
    """
    with ctx.obj.connect() as client:
        job = options.submit(client)
    if own["json"]:
        out.document(job.data)
    else:
        out.text(job.id)


def _submit_options(*, json: Json = False) -> None: ...


def _run(ctx: typer.Context, options: JobOptions, own: Mapping[str, Any]) -> None:
    """Submit a job, follow its output, exit with its exit code.

    The job's stdout and stderr come out as they were written. Ctrl-C asks whether to cancel the
    job; a second one, or no terminal to ask on, leaves it running. One attempt unless
    --attempts says otherwise. --json writes lines: {"submitted": job}, {"log": record} for
    each piece of output, {"ended": job}.
    """
    as_json = bool(own["json"])
    with ctx.obj.connect() as client:
        try:
            job = options.submit(client, attempts=1)
        except KeyboardInterrupt as error:
            out.note("interrupted while submitting; `joblane ls` shows whether the job is there")
            raise typer.Exit(exits.INTERRUPTED) from error
        try:
            _follow(client, job, as_json=as_json, give_up_s=own["give_up_s"])
        except KeyboardInterrupt as error:
            _interrupted(client, job)
            raise typer.Exit(exits.INTERRUPTED) from error
        except JoblaneError as error:
            out.explain(error)
            out.note(f"job {job.id} goes on; see it with: joblane logs -f {job.id}")
            raise typer.Exit(exits.of_error(error)) from error
    raise typer.Exit(exits.of_job(job.data))


def _interrupted(client: "Client", job: "Job") -> None:
    """Cancel the job if a person says so; a second Ctrl-C, or nobody there to ask, leaves it."""
    try:
        if _wants_end(job):
            note = str(client.cancel(job.id).data.get("note") or "cancelled")
            out.note(f"job {job.id}: {note}")
            return
    except KeyboardInterrupt:
        out.write(b"\n", stderr=True)  # behind the question
    except JoblaneError as error:
        out.explain(error)
    out.note(
        f"job {job.id} goes on; see it with: joblane logs -f {job.id}"
        f" or end it with: joblane cancel {job.id}"
    )


def _wants_end(job: "Job") -> bool:
    if not (out.is_terminal(sys.stdin) and out.is_terminal(sys.stderr)):
        return False
    out.write(f"\njoblane: cancel job {job.id}? [y/N] ".encode(), stderr=True)
    return sys.stdin.readline().strip().lower() in {"y", "yes"}


def _run_options(*, json: Json = False, give_up_s: GiveUp = 300) -> None: ...


def _follow(client: "Client", job: "Job", *, as_json: bool, give_up_s: float) -> None:
    from client.cli.watch import Watcher, write_records  # noqa: PLC0415

    if as_json:
        out.json_line({"submitted": job.data})
    elif out.is_terminal(sys.stderr):
        out.note(f"job {job.id}")
    Watcher(client, give_up_s, _log_lines if as_json else write_records).watch(job.id)
    job.wait()
    if as_json:
        out.json_line({"ended": job.data})
    if job.state != "completed":
        out.note(f"job {job.id} {job.state}: {job.reason or 'no reason given'}")


def _log_lines(records: Sequence["LogRecord"]) -> None:
    for piece in records:
        out.json_line({"log": piece.entry})


def add_to(app: typer.Typer) -> None:
    """Register the verbs."""
    app.command("run", options_metavar=_USAGE, epilog=exits.RUN_EPILOG, context_settings=_VERB)(
        _with_job_options(_run, _run_options)
    )
    app.command("submit", options_metavar=_USAGE, context_settings=_VERB)(
        _with_job_options(_submit, _submit_options)
    )
