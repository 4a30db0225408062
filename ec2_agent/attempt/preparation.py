"""What a claimed job needs before it starts: conditions that hold, its submission, its secrets."""

import json
import os
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from typing import Self, TypeVar

from ec2_agent.attempt.references import CannotResolve, refers_to_facts, with_facts
from ec2_agent.attempt.typed import CannotRunType, JobTypes, TypedCommand
from ec2_agent.calls import AWS_ERRORS, in_thread
from ec2_agent.facts.known import KnownFacts
from ec2_agent.files.cache import FileUnusable
from ec2_agent.files.inputs import InputFetch, InputFiles, Note
from ec2_agent.files.transfers import Stopped
from ec2_agent.jobs.context import TypedContext
from ec2_agent.logging import events
from ec2_agent.retry import AWS_RETRY, Backoff, retry
from ec2_agent.sandbox.model import SandboxLimits, Spec, refusal
from ec2_agent.shim.masking import MOST, Secrets
from joblane.aws.condition.requirements import Requirements
from joblane.aws.functions import FunctionFailed
from joblane.aws.job.payload_store import PayloadLost, PayloadStore
from joblane.aws.job.secret_store import SecretProblem, SecretStore
from joblane.condition.blocking import Blocking
from joblane.condition.names import scope_name
from joblane.formats.times import rfc3339
from joblane.group.array import value_text
from joblane.job.fields import GRACE_S
from joblane.job.head import Head
from joblane.job.judge import (
    AttemptResult,
    StopReason,
    judge_blocked_before_start,
    judge_stopped_before_start,
    not_started,
)
from joblane.key.segments import Constant, NoSegment, fill_in
from joblane.state.lifecycle import Outcome

T = TypeVar("T")

Stop = Callable[[], StopReason | None]
"""Why the attempt is to stop; None while it is to go on."""


class NotStarted(Exception):
    """The attempt ended before its job was started."""

    def __init__(self, result: AttemptResult) -> None:
        super().__init__(result.reason)
        self.result = result


@dataclass(frozen=True, slots=True)
class Prepared:
    """What a job is started with. A context manager, which closes the descriptors in it."""

    spec: Spec
    typed: TypedContext | None
    """None for a command."""
    held: ExitStack
    """Closes its bundle, its standard input and its input files."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.held.close()


@dataclass(frozen=True, slots=True)
class Preparation:
    """Prepares claimed jobs for their start."""

    requirements: Requirements
    payloads: PayloadStore
    secrets: SecretStore
    types: JobTypes
    files: InputFiles
    facts: KnownFacts
    clock: Callable[[], float]
    """Unix seconds."""
    grace_s: float = GRACE_S
    """Seconds between SIGTERM and SIGKILL."""

    async def prepare(self, head: Head, stop: Stop, note: Note) -> Prepared:
        """Read all that a job needs, and return what it is started with.

        `note` is told how far files are fetched. AWS errors are retried. Raises NotStarted if a
        condition does not hold, the submission, a secret or an input file cannot be read, it refers
        to a fact that is unknown here, its type cannot run here, or the attempt is to stop;
        HostShort if the disk has no room for its bundle or its files.
        """
        await self._test_conditions(head)
        whole = await self._read_whole(head, stop)
        params = whole.spec.params  # the key is of what was submitted, and not of facts
        text = None if params is None else _json(params)
        if refers_to_facts(whole.spec, text):
            whole = await self._resolve_facts(whole)
            text = None if params is None else _json(whole.spec.params)
        spec = sandbox_spec(whole, self.grace_s)
        secret_env = await self._secret_env(whole, stop)
        hidden = tuple(secret_env) if whole.spec.mask_secrets else ()
        self._check_lines([secret_env[name] for name in hidden])
        spec = replace(spec, env={**spec.env, **secret_env}, secrets=hidden)
        typed = None
        with ExitStack() as held:
            if text is not None:
                typed = TypedContext(text.encode())
                command = await self._read_type(head, stop)
                if command is not None:  # the command of a built-in type is in the submission
                    held.callback(os.close, command.lock)
                    spec = replace(spec, argv=command.argv, bundle=command.bundle)
                    typed = replace(typed, bundle=command.lock, key=_fill_in(command.key, params))
            files = held.enter_context(InputFetch(self.files, whole, lambda: stop() is None, note))
            await self._fetch(files, head, stop)
            spec = replace(spec, stdin=files.stdin, stage=files.stage)
            return Prepared(spec, typed, held.pop_all())

    async def _read_whole(self, head: Head, stop: Stop) -> Head:
        """Read what of the submission is elsewhere: in S3, or the value of a member of an array."""
        if not head.is_abridged:
            return head
        try:
            return await self._retry(
                head, stop, partial(self.payloads.read_whole, head), "arguments"
            )
        except PayloadLost as lost:
            raise self._not_started(str(lost)) from None

    async def _fetch(self, files: InputFetch, head: Head, stop: Stop) -> None:
        """Have the job's input files and its standard input here."""
        if not files.wanted:
            return
        try:
            await self._retry(head, stop, files.run, "input files")
        except FileUnusable as problem:
            raise self._not_started(f"not started: {problem}") from None
        except Stopped:
            reason = stop() or StopReason.DRAIN
            raise NotStarted(judge_stopped_before_start(head, reason, self._now_ms())) from None
        except OSError as failed:
            raise refusal(failed.errno, f"its input files: {failed}") from failed

    async def _resolve_facts(self, head: Head) -> Head:
        """Replace what refers to facts of this agent."""
        try:
            return replace(head, spec=await with_facts(head.spec, self.facts))
        except CannotResolve as problem:
            raise self._not_started(f"not started: {problem}") from None

    async def _read_type(self, head: Head, stop: Stop) -> TypedCommand | None:
        """Read the version of the job's type, and have its bundle here."""
        try:
            find = partial(self.types.command, head)
            return await self._retry(head, stop, find, "job type")
        except CannotRunType as problem:
            raise self._not_started(f"not started: {problem}") from None
        except OSError as failed:
            why = f"its bundle could not be unpacked: {failed}"
            raise refusal(failed.errno, why) from failed

    async def _test_conditions(self, head: Head) -> None:
        """Test the conditions in `requires`; raises NotStarted if one does not hold.

        One that cannot be tested counts as one that does not hold: recovery tests it again.
        """
        names = tuple(scope_name(name, head.tenant) for name in head.spec.requires)
        if not names:
            return
        first_blocking = partial(self.requirements.find_blocking, names)
        try:
            blocking = await in_thread(first_blocking, "requires")
        except (FunctionFailed, *AWS_ERRORS) as error:
            events.conditions_not_tested(head, error)
            blocking = Blocking(names[0], "could not be tested", untestable=False)
        if blocking is not None:
            raise NotStarted(judge_blocked_before_start(blocking, self._now_ms()))

    def _check_lines(self, values: Sequence[str]) -> None:
        lines = Secrets(value.encode("utf-8", "surrogatepass") for value in values).lines
        if len(lines) > MOST:
            raise self._not_started(
                f"not started: its secrets have {len(lines)} lines, and {MOST} can be hidden in "
                "its output; submit it with fewer, or with mask_secrets false"
            )

    async def _secret_env(self, head: Head, stop: Stop) -> dict[str, str]:
        """Read the values of `secret_env`: anew for each attempt, and stored nowhere."""
        references = head.spec.secret_env
        if not references:
            return {}
        read = partial(self.secrets.read, references, head.tenant)
        try:
            return await self._retry(head, stop, read, "secrets")
        except SecretProblem as problem:
            raise self._not_started(f"not started: {problem}") from None

    async def _retry(self, head: Head, stop: Stop, call: Callable[[], T], what: str) -> T:
        """Make a call until AWS answers; `what` names what the job waits for.

        Raises what the call raises beside AWS's errors, and NotStarted if the attempt is to stop.
        """
        try:
            return await retry(
                lambda: in_thread(call, what),
                Backoff(AWS_RETRY),
                proceed=lambda: stop() is None,
                event=partial(events.start_waits, head, what),
            )
        except AWS_ERRORS:
            reason = stop()
            if reason is None:
                raise
            raise NotStarted(judge_stopped_before_start(head, reason, self._now_ms())) from None

    def _not_started(self, reason: str) -> NotStarted:
        return NotStarted(not_started(Outcome.PERMANENT, reason, self._now_ms()))

    def _now_ms(self) -> int:
        return int(self.clock() * 1000)


def _json(params: object) -> str:
    return json.dumps(params, separators=(",", ":"), ensure_ascii=False)


def trace_env(head: Head) -> dict[str, str]:
    """The trace context of an attempt, in the variables that OpenTelemetry reads.

    Empty if the submission sets one of them: the two belong together.
    """
    fields = head.trace.under(head.span_id).fields
    env = {name.upper(): text for name, text in fields.items()}
    own = {"TRACEPARENT", "TRACESTATE"} & {*head.spec.env, *head.spec.secret_env}
    return {} if own else env


def array_env(head: Head) -> dict[str, str]:
    """What the job of an array is told; empty for other jobs."""
    place = head.in_array
    if place is None:
        return {}
    found = {"JOBLANE_ARRAY_INDEX": str(place.index), "JOBLANE_ARRAY_SIZE": str(place.jobs)}
    if head.value is not None:
        found["JOBLANE_ARRAY_VALUE"] = value_text(json.loads(head.value))
    return found


def schedule_env(head: Head) -> dict[str, str]:
    """What the job of a schedule is told; empty for other jobs."""
    if head.scheduled_ms is None:
        return {}
    return {"JOBLANE_SCHEDULED_AT": rfc3339(head.scheduled_ms)}


def _fill_in(template: Sequence[Constant], params: object) -> tuple[Constant, ...]:
    """The segments of a key that was admitted, so they are there; none if they are not."""
    try:
        return fill_in(template, params)
    except NoSegment:
        return ()


def sandbox_spec(head: Head, grace_s: float) -> Spec:
    """Give what the sandbox is to run for a claimed job; `grace_s` as `GRACE_S`."""
    spec = head.spec
    resources = spec.resources
    return Spec(
        argv=spec.command,
        env={
            **trace_env(head),
            **spec.env,
            "JOBLANE_JOB_ID": head.job_id,
            "JOBLANE_ATTEMPT": str(head.attempt),
            **array_env(head),
            **schedule_env(head),
            **({} if head.slot_token is None else {"JOBLANE_SLOT": head.slot_token}),
        },
        limits=SandboxLimits(
            memory_mb=resources.memory_mb,
            cpus=resources.cpus,
            pids=resources.pids,
            cores=resources.cores,
            io_bps=resources.io_bps,
            tmp_mb=resources.tmp_mb,
            disk_mb=resources.disk_mb,
        ),
        network=spec.network,
        timeout_s=spec.timeout_s,
        grace_s=grace_s,
        keep_work=bool(spec.outputs),
    )
