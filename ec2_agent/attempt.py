"""One attempt of one job: from the claim to the settled outcome and the message's end."""

import asyncio
from dataclasses import replace

from botocore.exceptions import BotoCoreError, ClientError

from ec2_agent.calls import NoThread, in_thread
from ec2_agent.decisions import (
    GRACE_S,
    Ask,
    Obstacle,
    Verdicted,
    judge,
    obstacle_of,
    of_blocking,
    sandbox_spec,
)
from ec2_agent.events import ConditionsNotTested, JobAbandoned, OutputLate, StartFailed
from ec2_agent.finished import End, finish
from ec2_agent.flight import Held
from ec2_agent.insisting import Insisting, NotStarted
from ec2_agent.kept import Exit, Folder, Kept, LeaseOver, Link, ShimLost, start
from ec2_agent.log_event import tell
from ec2_agent.output import Shipper
from ec2_agent.report import Tools, letter_of
from ec2_agent.sandbox import Ending, HostShort, LauncherGone, SandboxRefused, refusal
from ec2_agent.secret_env import read_secret_env
from ec2_agent.spool import Spool
from joblane.aws.payloads import PayloadLost
from joblane.aws.requirements import Blocking, NoAnswer
from joblane.conditions import scoped
from joblane.head import Head
from joblane.lifecycle import Outcome
from joblane.logs import stream_name

SHIP_TIMEOUT_S = 10.0
"""How long an outcome waits for its output to arrive: a reader who sees the end should find all
of it. After that the outcome goes first, and the output follows."""

GONE_S = 5.0
"""How long a slot stays taken at most while the shim writes down the end and goes."""


class Attempt:
    """A claimed job while it runs here."""

    def __init__(self, tools: Tools, head: Head, held: Held, kept: Kept | None = None) -> None:
        """Take on a job that was claimed, or with `kept` one that an earlier agent had started."""
        self._tools = tools
        self.head = head
        self._held = held
        self._kept = kept
        self._ask: Ask | None = None
        self._abandoned = False

    @property
    def started(self) -> bool:
        """Whether the job has what a start needs."""
        return self._kept is not None

    def ask_to_end(self, ask: Ask) -> None:
        """Ask the job to end: SIGTERM, grace, kill. The first who asks says why.

        A job that ends by itself meanwhile has ended by itself, and is reported so.
        """
        if self._ask is None:
            self._ask = ask
            if self._kept is not None and self._kept.link is not None:
                self._kept.link.stop(GRACE_S)

    def abandon(self) -> None:
        """Kill the job and say nothing: the lease is about to end, and another may own it."""
        self._abandoned = True
        if self._kept is not None and self._kept.link is not None:
            self._kept.link.kill()

    def renew(self, until: float) -> None:
        """Let the job run up to then, whatever becomes of this process."""
        if self._kept is not None and self._kept.link is not None and not self._abandoned:
            self._kept.link.renew(until)

    async def run(self) -> None:
        """Run the job to its end and report it. Errors of AWS are waited out, none is raised."""
        head = self.head  # as claimed: small, and enough to report
        try:
            verdict = None
            if self._kept is None:
                verdict = await self._obstacle()
            if verdict is None:
                if self._kept is None:
                    await self._fetch()
                kept = self._kept or await self._start()
                try:
                    await self._follow(head, kept)
                finally:
                    if kept.link is not None:
                        kept.link.close()
                return
            started = False
        except SandboxRefused as refused:
            verdict, started = self._refused(refused), False
        except NotStarted as stopped:
            verdict, started = stopped.verdict, False
        except ShimLost as lost:
            verdict, started = Verdicted(Outcome.LOST, str(lost)), True
            self._abandoned |= isinstance(lost, LeaseOver)
        if self._abandoned:
            self._give_up()
            return
        await self._put(head, verdict, None, 0, started=started)

    async def _follow(self, head: Head, kept: Kept) -> None:
        """Ship the output of a job that runs, wait for its end, and report it."""
        tools, folder = self._tools, kept.folder
        spool = Spool(folder.reader(), folder.note_shipped)
        stream = stream_name(head.tenant, head.job_id, head.epoch)
        grown = asyncio.Event() if kept.link is None else kept.link.grown
        want = _nothing if kept.link is None else kept.link.want
        shipper = Shipper(spool, grown, want, (tools.logs, stream))
        end = await kept.end()
        if self._abandoned or (end is not None and end.lease_lost):
            await shipper.abandon()
            kept.remove()
            await kept.gone(GONE_S)
            self._give_up()
            return
        if end is None:
            verdict, ending, records = Verdicted(Outcome.LOST, "its shim was killed"), None, None
        else:
            ending, records = end.ending, end.records
            verdict = judge(head, ending, self._ask, self._waits_for(end), tools.now_ms())
        arrived = await shipper.finish(SHIP_TIMEOUT_S)
        if not arrived:
            tell(OutputLate(head.job_id))
        await self._put(head, verdict, ending, records)
        shipper.then(kept.remove)  # killed before that, the next agent ships and removes
        await kept.gone(GONE_S)

    async def _put(
        self,
        head: Head,
        verdict: Verdicted,
        ending: Ending | None,
        records: int | None,
        *,
        started: bool = True,
    ) -> None:
        """Put the outcome into the journal, which brings it to AWS."""
        tools = self._tools
        end = End(verdict, ending, records, tools.now_ms(), started=started)
        letter = letter_of(self._held)
        await tools.journal.put(finish(head, letter, end, tools.retention, tools.dice))

    def _until(self) -> float:
        """Up to when the job may run; in the past once it was abandoned."""
        # Read in this order: a lease that was lost and is held again does not bring back the
        # jobs of before, and they are abandoned before it is renewed.
        until = self._tools.keep.until()
        return 0.0 if self._abandoned else until

    def _give_up(self) -> None:
        self._tools.flight.abandon(self._held)
        tell(JobAbandoned(self.head.job_id))

    async def _obstacle(self) -> Verdicted | None:
        """What keeps the job from starting, if anything that it requires does.

        A test that gets no answer counts as one that blocks: recovery repeats it.
        """
        requires, requirements = self._requires(), self._tools.requirements
        if not requires or requirements is None:
            return None
        try:
            blocking = await in_thread(lambda: requirements.first_blocking(requires), "requires")
        except (NoAnswer, BotoCoreError, ClientError) as error:
            tell(ConditionsNotTested(self.head.job_id, error))
            blocking = Blocking(requires[0], "could not be tested", hopeless=False)
        return None if blocking is None else of_blocking(blocking)

    async def _fetch(self) -> None:
        """Fetch a submission that lies in S3. Raises NotStarted if it cannot be had."""
        head, payloads = self.head, self._tools.payloads
        try:
            self.head = await self._insisting().call(lambda: payloads.whole(head), "arguments")
        except PayloadLost as lost:
            raise NotStarted(Verdicted(Outcome.PERMANENT, str(lost))) from None

    def _insisting(self) -> Insisting:
        def asked() -> Ask | None:
            return Ask.LEAVING if self._abandoned else self._ask

        return Insisting(self.head, asked, self._tools.now_ms)

    def _waits_for(self, end: Exit) -> Obstacle | None:
        """What the job waits for if it exits with 75; None where nobody could tell when."""
        return None if self._tools.conditions is None else obstacle_of(self.head, end.condition)

    def _requires(self) -> tuple[str, ...]:
        return tuple(scoped(name, self.head.tenant) for name in self.head.spec.requires)

    def _refused(self, refused: SandboxRefused) -> Verdicted:
        """Judge a job that could not be started."""
        why = f"not started: {refused.reason}"
        if isinstance(refused, HostShort):
            # Whoever has room runs it; this agent takes nothing for a while.
            tell(StartFailed(self.head.job_id, refused.reason))
            self._tools.room.start_failed(refused.reason)
            return Verdicted(Outcome.INTERRUPTED, why)
        if isinstance(refused, LauncherGone):
            # Not for long: the agent goes, and the next one starts it.
            return Verdicted(Outcome.INTERRUPTED, why)
        return Verdicted(Outcome.REFUSED, why)

    async def _start(self) -> Kept:
        """Start the job.

        Raises SandboxRefused if it cannot be, ShimLost if it came to nothing.
        """
        tools, head, held = self._tools, self.head, self._held
        spec = sandbox_spec(head)
        secrets = await read_secret_env(tools.secrets, self._insisting())
        spec = replace(spec, env={**spec.env, **secrets})
        keep = replace(tools.keep, until=self._until)
        try:
            folder = Folder.make(tools.keep.jobs, head, held)
        except OSError as failed:
            why = f"its directory could not be made: {failed}"
            raise refusal(failed.errno, why) from failed
        try:
            shim, sandbox = await in_thread(
                lambda: start(keep, tools.launcher, spec, folder), "start"
            )
        except NoThread as none:
            folder.remove()
            raise HostShort(str(none)) from none
        except BaseException:
            folder.remove()
            raise
        tools.room.start_succeeded()
        self._kept = kept = Kept(folder, link := Link(shim), sandbox)
        # Whoever asked us to stop while the sandbox was being made found none to stop.
        if self._abandoned:
            link.kill()
        elif self._ask is not None:
            link.stop(GRACE_S)
        return kept


def _nothing(_: int) -> None:
    """Ask nobody: the shim has gone, and its log grows no more."""
