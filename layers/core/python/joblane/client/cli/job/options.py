"""Options of the commands `run` and `submit` that describe a job."""

from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from joblane.client.cli import completion, times
from joblane.client.cli.job.changeable import (
    DEADLINE,
    RESOURCES,
    Label,
    Priority,
    Timeout,
    TimeoutS,
    pairs,
)
from joblane.client.cli.job.environment import variables
from joblane.client.cli.job.field_values import concurrency_field, drop_none, json_object
from joblane.client.cli.job.group_options import GroupOptions
from joblane.client.cli.job.notify_option import notify_field
from joblane.client.cli.options import IdempotencyKey
from joblane.client.cli.text import terminal
from joblane.client.errors import AnswerError, ServerError, UnreachableError

if TYPE_CHECKING:
    from joblane.client.cli.job.each import Common
    from joblane.client.clients import Client
    from joblane.client.refs import JobRef


LIMITS = ("max_active", "max_queued", "when_full", "stale_policy")

OF_FILES = ("inputs", "exclude", "outputs", "stdin")


@dataclass(frozen=True, slots=True, kw_only=True)
class JobOptions(GroupOptions):
    """Options of `run` and `submit` that describe a job."""

    command: Annotated[
        list[str] | None,
        typer.Argument(metavar="CMD", help="The program and its arguments.", show_default=False),
    ] = None
    job_type: Annotated[
        str | None,
        typer.Option(
            "--type",
            metavar="TYPE",
            help="Job type, in place of a command.",
            autocompletion=completion.types,
        ),
    ] = None
    params: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="With --type: JSON file with the params; - reads standard input.",
            allow_dash=True,
        ),
    ] = None
    name: Annotated[str | None, typer.Option(help="Name of the job, up to 128 characters.")] = None
    queue: Annotated[
        str | None,
        typer.Option(
            help="Queue (default: chosen by the deployment's filters).",
            autocompletion=completion.queues,
        ),
    ] = None
    priority: Priority = None
    cpus: Annotated[float | None, typer.Option(help=RESOURCES["cpus"])] = None
    memory_mb: Annotated[int | None, typer.Option(help=RESOURCES["memory_mb"])] = None
    pids: Annotated[int | None, typer.Option(help=RESOURCES["pids"])] = None
    cores: Annotated[str | None, typer.Option(help=RESOURCES["cores"])] = None
    io_bps: Annotated[int | None, typer.Option(help=RESOURCES["io_bps"])] = None
    tmp_mb: Annotated[int | None, typer.Option(help=RESOURCES["tmp_mb"])] = None
    disk_mb: Annotated[int | None, typer.Option(help=RESOURCES["disk_mb"])] = None
    network: Annotated[
        Literal["none", "egress", "host"] | None,
        typer.Option(
            help="none: loopback (default); egress: outbound through NAT; host: the instance's."
        ),
    ] = None
    env: Annotated[
        list[str] | None,
        typer.Option(
            "--env",
            "-e",
            metavar="K=V",
            help="Environment variable; K alone takes its local value. Can be repeated.",
        ),
    ] = None
    env_file: Annotated[
        list[Path] | None,
        typer.Option(metavar="FILE", help="File of environment variables, one per line: K=V or K."),
    ] = None
    secret_env: Annotated[
        list[str] | None,
        typer.Option(
            metavar="K=REF",
            help="Variable set from a secret: K=secretsmanager:NAME[#KEY] or K=ssm:/PATH.",
        ),
    ] = None
    mask_secrets: Annotated[
        bool,
        typer.Option(
            "--mask-secrets/--no-mask-secrets",
            help="Show *** in place of secrets that the job writes (default).",
        ),
    ] = True
    merge_stderr: Annotated[
        bool,
        typer.Option(
            "--merge-stderr", help="Make standard error a part of standard output, in exact order."
        ),
    ] = False
    timeout: Timeout = None
    timeout_s: TimeoutS = None
    heartbeat_timeout_s: Annotated[
        float | None,
        typer.Option(
            help="Stop an attempt that sends nothing on descriptor 3 for this many seconds."
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
    permanent_exit_code: Annotated[
        list[int] | None,
        typer.Option(
            metavar="CODE",
            help="Exit code after which the job is not tried again, such as 65; can be repeated.",
        ),
    ] = None
    blocked_exit_code: Annotated[
        list[int] | None,
        typer.Option(
            metavar="CODE",
            help="Exit code that says that the job waits for a condition, such as 75; can be"
            " repeated.",
        ),
    ] = None
    skipped_exit_code: Annotated[
        list[int] | None,
        typer.Option(
            metavar="CODE",
            help="Exit code that says that the job does not apply where it ran; can be repeated.",
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
        typer.Option(metavar="TIME", help="Earliest start time, such as +5m or 'tomorrow 9:00'."),
    ] = None
    deadline: Annotated[str | None, typer.Option(metavar="TIME", help=DEADLINE)] = None
    requires: Annotated[
        list[str] | None,
        typer.Option(
            metavar="CONDITION",
            help="Condition that must hold before the job starts, such as app:billing,"
            " tcp:db.example.com:5432 or http:https://api.example.com/health; can be repeated.",
        ),
    ] = None
    label: Label = None
    concurrency: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Policy of joblane.toml that limits how many jobs with the same key run at once.",
        ),
    ] = None
    key: Annotated[
        list[str] | None,
        typer.Option(
            metavar="SEGMENT",
            help="Key whose jobs are limited; repeat for each segment, such as --key customer"
            " --key acme. A number is a number, and '\"1\"' the string.",
        ),
    ] = None
    max_active: Annotated[
        int | None,
        typer.Option(
            help="With --key: maximum number of the key's jobs that run at once (default: 1)."
        ),
    ] = None
    max_queued: Annotated[
        int | None,
        typer.Option(help="With --key: maximum number of the key's jobs that wait (default: 0)."),
    ] = None
    when_full: Annotated[
        Literal["reject", "coalesce", "replace-oldest"] | None,
        typer.Option(
            help="With --key: what to do with a new job when the key is full (default: reject)."
        ),
    ] = None
    stale_policy: Annotated[
        Literal["fail-stale", "block"] | None,
        typer.Option(help="With --key: what to do with a job whose agent was lost."),
    ] = None
    notify: Annotated[
        str | None,
        typer.Option(
            metavar="URL|ARN|eventbridge",
            help="Notify a webhook, an SNS topic or EventBridge when the job ends or blocks.",
        ),
    ] = None
    notify_on: Annotated[
        list[str] | None,
        typer.Option(
            metavar="EVENT",
            help="With --notify: of this event alone, such as started or failed; can be repeated.",
        ),
    ] = None
    notify_members: Annotated[
        bool,
        typer.Option(
            "--notify-members",
            help="With --notify, of an array or with --on: of each of its jobs as well.",
        ),
    ] = False
    items: Annotated[
        int | None,
        typer.Option(
            metavar="N", min=1, help="Number of work items in this job, for queue statistics."
        ),
    ] = None

    idempotency_key: IdempotencyKey = None

    def submit(
        self, client: "Client", *, attempts: int | None = None
    ) -> tuple["JobRef", dict[str, Any]]:
        """Submit the job; `attempts` is the default of --attempts. Raises `JoblaneError`.

        Returns it with the fields that it was submitted with.
        """
        try:
            self._check_command()
            values = self._fields(attempts)
            if self.job_type is None:
                values |= self.upload(client, read_stdin=str(self.array_values) != "-")
                return client.submit(self.command or [], **values), values
            params = self._params()
            values |= self.upload(client, read_stdin=False)
            return client.submit(self.job_type, params, **values), values
        except (UnreachableError, ServerError, AnswerError) as error:
            if not isinstance(error, UnreachableError) or error.sent:
                terminal.note("the job may have been accepted; check with: joblane ls")
            raise

    def common(self, attempts: int | None) -> "Common":
        """What the jobs of --each have in common. Raises `typer.BadParameter`."""
        from joblane.client.cli.job.each import Common  # for --each only

        if self.params is not None:
            raise typer.BadParameter("--params and --each exclude each other: lines are the params")
        if self.makes_array:
            raise typer.BadParameter("--each submits each line by itself; --array-values a group")
        self._check_apart()
        fields = self._fields(attempts)
        fields.pop("idempotency_key", None)
        return Common(fields, tuple(self.command or ()), self.job_type)

    def submission(self) -> dict[str, Any]:
        """The fields of the submission, as JSON. Raises `typer.BadParameter`."""
        self._check_command()
        values = self._fields(None)
        values.pop("idempotency_key", None)
        if self.job_type is None:
            return {"command": self.command, **values}
        params = self._params()
        return {"type": self.job_type, **({} if params is None else {"params": params}), **values}

    def _check_apart(self) -> None:
        if self.job_type is not None and self.command:
            raise typer.BadParameter("a command and --type exclude each other")

    def _check_command(self) -> None:
        self._check_apart()
        if self.job_type is None and self.params is not None:
            raise typer.BadParameter("--params needs --type")
        if self.job_type is None and not self.command:
            raise typer.BadParameter("give a program after --, or --type")
        if self.params is not None and self.array_values is not None:
            raise typer.BadParameter("with --array-values each line is the params: no --params")

    def _params(self) -> dict[str, Any] | None:
        """The params of a type; None if each line of --array-values has its own."""
        if self.params is not None:
            return json_object("--params", self.params)
        return None if self.array_values is not None else {}

    def _fields(self, attempts: int | None) -> dict[str, Any]:
        """Fields of the submission: each is the option of its name, except those set here."""
        own = {field.name: getattr(self, field.name) for field in fields(self)}
        for name in ("command", "job_type", "params", "array_values", *OF_FILES):
            del own[name]
        resources = {name: own.pop(name) for name in RESOURCES}
        max_attempts = own.pop("attempts")
        retry = {
            "max_attempts": attempts if max_attempts is None else max_attempts,
            "backoff_s": own.pop("backoff_s") or None,
        }
        exit_codes = {
            "permanent": own.pop("permanent_exit_code") or None,
            "blocked": own.pop("blocked_exit_code") or None,
            "skipped": own.pop("skipped_exit_code") or None,
        }
        limits = {name: own.pop(name) for name in LIMITS}
        own |= {
            "concurrency": concurrency_field(self.concurrency, own.pop("key"), drop_none(limits)),
            "resources": drop_none(resources) or None,
            "retry": drop_none(retry) or None,
            "exit_codes": drop_none(exit_codes) or None,
            "env": variables(self.env, own.pop("env_file")),
            "secret_env": pairs("--secret-env", self.secret_env),
            "mask_secrets": None if self.mask_secrets else False,
            "merge_stderr": self.merge_stderr or None,
            "requires": self.requires or None,
            "labels": pairs("--label", own.pop("label")),
            "restartable": None if own.pop("restart") else False,
            **self.group_fields(),
            "notify": notify_field(
                self.notify, own.pop("notify_on"), members=own.pop("notify_members")
            ),
            "timeout_s": times.one_duration(self.timeout_s, own.pop("timeout")),
            "run_at": times.utc_time("--run-at", self.run_at, "ahead"),
            "deadline": times.utc_time("--deadline", self.deadline, "ahead", in_future=True),
        }
        return drop_none(own)
