"""One attempt of a claimed job: prepare, start, ship its output, record its outcome."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial

from ec2_agent.attempt import deadline
from ec2_agent.attempt.outputs import OutputCollector
from ec2_agent.attempt.preparation import NotStarted, Preparation
from ec2_agent.attempt.shipping import OutputShipper
from ec2_agent.calls import AWS_ERRORS, in_thread
from ec2_agent.host.lacking import LackingHost
from ec2_agent.jobs.running import RunningJob
from ec2_agent.jobs.start import JobStarter, LeaseOver, ShimLost
from ec2_agent.logging import events
from ec2_agent.messages.delivery import Delivery
from ec2_agent.messages.flight import Flight
from ec2_agent.messages.hiding import LACKING
from ec2_agent.outcomes.journal import OutcomeRecorder
from ec2_agent.presence.usage import RunningProcesses
from ec2_agent.retry import aws_backoff, retry
from ec2_agent.sandbox.model import (
    DiskShort,
    HostLacks,
    HostShort,
    LauncherGone,
    SandboxRefused,
)
from ec2_agent.shim import files
from joblane.aws.job.output_store import OutputStore
from joblane.aws.job.result_store import ResultStore
from joblane.formats.text import shorten
from joblane.job.head import Head
from joblane.job.judge import (
    FAILURE_CHARS,
    AttemptResult,
    StopReason,
    judge,
    not_started,
    said_reason,
)
from joblane.job.lacking import describe_lack
from joblane.job.output import stream_name
from joblane.state.lease import Progress
from joblane.state.lifecycle import Outcome

SHIP_TIMEOUT_S = 10.0
"""How long an outcome waits for the job's output to arrive, so that a reader who sees the end finds
all of the output. After that the outcome is recorded first, and the output follows."""

AGAIN_S = 60
"""Pause before a message whose outcome could not be recorded is received again."""

GONE_S = 5.0
"""How long a slot stays taken at most while the shim writes its exit record and ends."""


@dataclass(frozen=True, slots=True)
class AttemptParts:
    """What the attempts of one agent use."""

    preparation: Preparation
    starter: JobStarter
    recorder: OutcomeRecorder
    output: OutputStore
    results: ResultStore
    files: OutputCollector
    flight: Flight
    lacking: LackingHost
    note_started: Callable[[Head, Delivery], None]
    """Called when a job was started: what it needed for its start only is free again."""


@dataclass(eq=False)
class Attempt:
    """One attempt of a claimed job."""

    parts: AttemptParts
    head: Head
    delivery: Delivery
    job: RunningJob | None = None
    """The running job; given if an earlier process of this agent started it."""

    def __post_init__(self) -> None:
        self._stop: StopReason | None = None
        self._abandoned = False
        self._recorded = False
        """Whether the outcome was handed to the journal: there is none after it."""
        self._shipper: OutputShipper | None = None
        self._followed = False
        self._doing: Progress | None = None
        """What this agent does for the job while that does not run."""

    @property
    def started(self) -> bool:
        """Whether the job was started."""
        return self.job is not None

    @property
    def progress(self) -> Progress | None:
        """What the job reported last; before its start and after its end, what is done for it."""
        reported = None if self.job is None else self.job.shim.progress
        return reported or self._doing

    @property
    def processes(self) -> RunningProcesses | None:
        """The job's processes; None before its start."""
        job = self.job
        if job is None:
            return None
        leaf = None if job.sandbox is None else job.sandbox.leaf
        return RunningProcesses(self.head.job_id, self.head.epoch, leaf, job.init_pid)

    def request_stop(self, reason: StopReason) -> None:
        """Stop the job: SIGTERM, later SIGKILL. The first request's reason counts.

        A job that ends by itself in the meantime is recorded so.
        """
        if self._stop is None:
            self._stop = reason
            if self.job is not None:
                self._stop_job(self.job, reason)

    def _stop_job(self, job: RunningJob, reason: StopReason) -> None:
        why = said_reason(self.head, reason, self.parts.recorder.now_ms())
        job.shim.stop(self.parts.preparation.grace_s, why)

    def abandon(self) -> None:
        """Kill the job and record nothing: the lease ends, and another agent may run it."""
        self._abandoned = True
        if self.job is not None:
            self.job.shim.kill()

    def renew(self, until: float) -> None:
        """Let the job run up to a moment of CLOCK_BOOTTIME, even if this process ends."""
        if self.job is not None and not self._abandoned:
            self.job.shim.renew(until)

    def follow(self) -> None:
        """Ship output as it comes: somebody reads it."""
        self._followed = True
        if self._shipper is not None:
            self._shipper.follow()

    async def run(self) -> None:
        """Run the job to its end and record the outcome; AWS errors are retried, not raised.

        It is stopped at its deadline: at once, and whether or not the control plane can be reached.
        An error that no step expects is logged and becomes the outcome: nobody else would end the
        job, or let its message go.
        """
        with self._deadline_kept():
            await self._run()

    @contextmanager
    def _deadline_kept(self) -> Iterator[None]:
        """Stop the job when its deadline passes, before its start as well."""
        due_ms = self.head.deadline_ms
        if due_ms is None:
            yield
            return
        due = asyncio.create_task(
            deadline.wait_until_passed(due_ms, self.parts.recorder.clock), name="due"
        )
        due.add_done_callback(
            lambda task: None if task.cancelled() else self.request_stop(StopReason.DEADLINE)
        )
        try:
            yield
        finally:
            due.cancel()

    async def _run(self) -> None:
        try:
            job = self.job or await self._start()
        except SandboxRefused as refused:
            result = self._refuse(refused)
        except NotStarted as stopped:
            result = stopped.result
        except ShimLost as lost:
            result = AttemptResult(Outcome.LOST, str(lost), self.parts.recorder.now_ms(), records=0)
            self._abandoned |= isinstance(lost, LeaseOver)
        except Exception as defect:  # noqa: BLE001 - see `run`
            why = f"not started: {self._report_defect(defect)}"
            result = not_started(Outcome.FAILED, why, self.parts.recorder.now_ms())
        else:
            try:
                await self._follow(job)
            except Exception as defect:  # noqa: BLE001 - see `run`
                await self._lose(job, self._report_defect(defect))
            finally:
                job.shim.close()
            return
        if self._abandoned:
            self._give_up()
            return
        await self._record(result)

    async def _follow(self, job: RunningJob) -> None:
        """Ship the output of a running job, wait for its end, and record it."""
        head = self.head
        stream = stream_name(head.tenant, head.job_id, head.epoch)
        self._shipper = shipper = OutputShipper(job, self.parts.output, stream, head)
        if self._followed:
            shipper.follow()
        ending = await job.end()
        if self._abandoned or (ending is not None and ending.lease_lost):
            await self._discard(job, shipper)
            return
        arrived = await shipper.finish(SHIP_TIMEOUT_S)
        if not arrived:
            events.output_late(head)
        now_ms = self.parts.recorder.now_ms()
        result = (
            AttemptResult(
                Outcome.LOST, "its shim was killed", now_ms, stored_bytes=job.directory.log_bytes
            )
            if ending is None
            else judge(head, ending, self._stop, now_ms)
        )
        if not shipper.complete:  # readers count on the number only if all of it is stored
            result = replace(result, records=None)
        collected = await self.parts.files.collect(
            head, job, result, lambda: not self._abandoned, self._note
        )
        stored = None if collected is None else await self._store_result(job, collected)
        if stored is None:
            await self._discard(job, shipper)
            return
        await self._record(stored)
        if not (shipper.complete and job.reuse_shim()):
            shipper.then(job.remove)  # if killed before that, the next agent ships and removes
            await job.let_shim_end(GONE_S)

    async def _lose(self, job: RunningJob, why: str) -> None:
        """Kill a job that cannot be followed, and record it as lost.

        Not before all of it is dead: another agent may start it at once.
        """
        shipper = self._shipper
        job.shim.kill()
        await job.wait_dead()
        if job.sandbox is not None:
            job.sandbox.release(killed=True)
        if self._abandoned:
            await self._discard(job, shipper)
            return
        if shipper is not None:
            await shipper.finish(SHIP_TIMEOUT_S)
        if not self._recorded:
            now_ms, stored = self.parts.recorder.now_ms(), job.directory.log_bytes
            await self._record(AttemptResult(Outcome.LOST, why, now_ms, stored_bytes=stored))
        job.remove()
        await job.let_shim_end(GONE_S)

    async def _record(self, result: AttemptResult) -> None:
        """Record the result; its message is given back if even that cannot be done."""
        self._recorded = True
        try:
            await self.parts.recorder.record(self.head, self.delivery, result)
        except Exception as defect:  # noqa: BLE001 - see `run`
            self._report_defect(defect)
            await self.parts.flight.give_back(self.delivery, AGAIN_S)

    def _report_defect(self, defect: Exception) -> str:
        """Log an error that no step expects; returns what a user reads of it."""
        kind = type(defect).__name__
        events.attempt_broke(self.head, kind, defect)
        return f"agent {self.head.agent} met an unexpected {kind}, which its log explains"

    async def _discard(self, job: RunningJob, shipper: OutputShipper | None) -> None:
        """Report nothing about a job whose lease is lost, and remove its directory."""
        if shipper is not None:
            await shipper.abandon()
        job.remove()
        await job.let_shim_end(GONE_S)
        self._give_up()

    async def _store_result(self, job: RunningJob, result: AttemptResult) -> AttemptResult | None:
        """Store a large result of a job that succeeded; None once the job was abandoned.

        agent                       S3          journal         table
        put  ---------------------> object
        (killed here: the next process of its name finds the exit record, and puts it again)
        outcome  ----------------------------->  stored
        settle  --------------------------------------------->  completed, names the object
        """
        ending = result.ending
        if result.outcome is not Outcome.SUCCEEDED or ending is None or not ending.result_file:
            return result
        data = job.directory.read_bytes(files.RESULT)
        if data is None:
            return replace(result, outcome=Outcome.LOST, reason="its result is not on the disk")
        try:
            stored = await retry(
                lambda: in_thread(lambda: self.parts.results.put(self.head, data), "result"),
                aws_backoff(),
                proceed=lambda: not self._abandoned,
                event=partial(events.result_waits, self.head),
            )
        except AWS_ERRORS:
            if not self._abandoned:
                raise
            return None
        return None if self._abandoned else replace(result, result_object=stored)

    def _note(self, what: str, done: int, files: int) -> None:
        """Note what is done for the job, for the next heartbeat; called from other threads."""
        percent = 100.0 * done / files if files else None
        text = f"{what}: {done:,} of {files:,}"
        self._doing = Progress(percent, text, self.parts.recorder.now_ms())

    def _until(self) -> float:
        """Up to when the job may run; in the past once it was abandoned."""
        # In this order: when a lost lease is held again, the jobs from before it was lost must
        # not start, and they are abandoned before it is renewed.
        until = self.parts.starter.lease_until()
        return 0.0 if self._abandoned else until

    def _give_up(self) -> None:
        self.parts.flight.abandon(self.delivery)
        events.job_abandoned(self.head)

    def _stop_reason(self) -> StopReason | None:
        return StopReason.DRAIN if self._abandoned else self._stop

    def _refuse(self, refused: SandboxRefused) -> AttemptResult:
        """Give the result of a job that could not be started."""
        head, now_ms = self.head, self.parts.recorder.now_ms()
        if isinstance(refused, DiskShort) and head.assigned is None:
            self.parts.lacking.remember(head.job_id, LACKING.first_s)
        if isinstance(refused, HostLacks) and head.assigned is None:
            self.parts.lacking.remember(head.job_id)
            why, _, _ = refused.reason.partition("; ")  # what follows is advice for the operator
            reason = shorten(describe_lack(head.agent or "?", why), FAILURE_CHARS)
            return not_started(Outcome.INTERRUPTED, reason, now_ms)
        # Another agent runs it; this one takes no jobs for a while, or ends.
        elsewhere = isinstance(refused, HostShort | LauncherGone)
        outcome = Outcome.INTERRUPTED if elsewhere else Outcome.REFUSED
        return not_started(outcome, f"not started: {refused.reason}", now_ms)

    async def _start(self) -> RunningJob:
        """Start the job. Raises NotStarted, SandboxRefused or ShimLost."""
        parts = self.parts
        try:
            prepared = await parts.preparation.prepare(self.head, self._stop_reason, self._note)
        except HostShort as short:
            parts.starter.note_short(self.head, short)
            raise
        with prepared:
            self.job = job = await parts.starter.start(
                self.head, self.delivery, prepared.spec, self._until, prepared.typed
            )
        self._doing = None
        parts.note_started(self.head, self.delivery)
        # A request to stop that came while the sandbox was being made found none to stop.
        if self._abandoned:
            job.shim.kill()
        elif self._stop is not None:
            self._stop_job(job, self._stop)
        return job
