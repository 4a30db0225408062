"""One attempt of one job: from the claim to the settled outcome and the message's end."""

import asyncio
import logging
import os
import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import count

from botocore.exceptions import BotoCoreError, ClientError

from ec2_agent.calls import in_thread
from ec2_agent.decisions import (
    GRACE_S,
    Ask,
    Verdicted,
    expires_at,
    judge,
    sandbox_spec,
    usage_json,
)
from ec2_agent.flight import Flight, Held
from ec2_agent.output import Capture, Shipper
from ec2_agent.sandbox import Ending, Launcher, Sandbox, SandboxRefused
from ec2_agent.spool import Spool
from joblane.aws.jobs import Facts, JobStore, Refused
from joblane.aws.logs import LogStore
from joblane.config import Retention
from joblane.head import Head, Step
from joblane.lifecycle import ENDED, Outcome, Settlement, State, settle
from joblane.logs import stream_name

SHIP_TIMEOUT_S = 10.0
"""How long an outcome waits for its output to arrive: a reader who sees the end should find all
of it. After that the outcome goes first, and the output follows."""

RETRY_S = (0.2, 0.5, 1.0, 2.0, 5.0)

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Tools:
    """What attempts share."""

    jobs: JobStore
    logs: LogStore
    launcher: Launcher
    flight: Flight
    retention: Retention
    clock: Callable[[], float]
    """Unix seconds."""
    dice: random.Random


class Attempt:
    """A claimed job while it runs here."""

    def __init__(self, tools: Tools, head: Head, held: Held) -> None:
        self._tools = tools
        self.head = head
        self._held = held
        self._sandbox: Sandbox | None = None
        self._ask: Ask | None = None
        self._abandoned = False

    def ask_to_end(self, ask: Ask) -> None:
        """Ask the job to end: SIGTERM, grace, kill. The first who asks says why.

        A job that ends by itself meanwhile has ended by itself, and is reported so.
        """
        if self._ask is None:
            self._ask = ask
            if self._sandbox is not None:
                self._sandbox.stop(GRACE_S)

    def abandon(self) -> None:
        """Kill the job and say nothing: the lease is about to end, and another may own it."""
        self._abandoned = True
        if self._sandbox is not None:
            self._sandbox.stop(0)

    async def run(self) -> None:
        """Run the job to its end and report it. Errors of AWS are waited out, none is raised."""
        tools, head = self._tools, self.head
        spool = Spool()
        capture = Capture(spool, tools.clock)
        stream = stream_name(head.tenant, head.job_id, head.epoch)
        shipper = Shipper(spool, capture.written, tools.logs, stream)
        ending: Ending | None = None
        try:
            ending = await self._execute(capture)
            verdict = judge(head, ending, self._ask)
        except SandboxRefused as refusal:
            verdict = Verdicted(Outcome.REFUSED, f"not started: {refusal.reason}")
        finally:
            capture.close()
        if self._abandoned:
            await shipper.abandon()
            self._tools.flight.abandon(self._held)
            log.error("job %s: abandoned, the lease could not be renewed", head.job_id)
            return
        records = spool.seq
        if not await shipper.finish(SHIP_TIMEOUT_S):
            log.warning("job %s: its output arrives later", head.job_id)
        await self._report(verdict, ending, records)

    async def _execute(self, capture: Capture) -> Ending:
        """Run the command in its sandbox. Raises SandboxRefused if it cannot be had."""
        spec = sandbox_spec(self.head)
        stdout, stderr = capture.pipe("stdout"), capture.pipe("stderr")
        try:
            sandbox = await in_thread(
                lambda: self._tools.launcher.start(spec, stdout=stdout, stderr=stderr), "start"
            )
        finally:
            os.close(stdout)
            os.close(stderr)
        self._sandbox = sandbox
        # Whoever asked us to stop while the sandbox was being made found none to stop.
        if self._abandoned:
            sandbox.stop(0)
        elif self._ask is not None:
            sandbox.stop(GRACE_S)
        await _readable(sandbox.fileno())
        return sandbox.wait()

    async def _report(self, verdict: Verdicted, ending: Ending | None, records: int) -> None:
        """Write the outcome, then let go of the message: in this order nothing is lost.

        agent                        table                      lane
        settle  ---------------->    completed
        (killed here)                                           message seen again
                                     refused: ended  <------    another agent claims
                                                     ------>    deletes it
        """
        try:
            settlement = await self._settle(verdict, ending, records)
        except Refused as refusal:
            if self._abandoned or not _asked_to_end(refusal.head, self.head.epoch):
                log.warning("job %s: stale_completion_ignored, %s", self.head.job_id, refusal)
                self._tools.flight.abandon(self._held)
                return
            # Somebody asked for the end while the attempt came to its own: not tried again.
            cancelled = Verdicted(Outcome.CANCELLED, f"cancelled; {verdict.why}")
            await self._report(cancelled, ending, records)
            return
        log.info("job %s attempt %d: %s", self.head.job_id, self.head.attempt, settlement.reason)
        if settlement.state in ENDED:
            await self._tools.flight.delete(self._held)
        else:
            await self._tools.flight.give_back(self._held, int(settlement.delay_s))

    async def _settle(self, verdict: Verdicted, ending: Ending | None, records: int) -> Settlement:
        """Write the outcome, however long AWS takes. Raises Refused: the job has moved on."""
        head, tools = self.head, self._tools
        attempt = replace(head.current_attempt(), started=ending is not None)
        settlement = settle(verdict.outcome, verdict.why, attempt, tools.dice)
        now_ms = int(tools.clock() * 1000)
        number = head.attempt if settlement.counted else head.attempt - 1
        step = Step(settlement.state, now_ms, number, settlement.reason, records=records)
        ended = settlement.state in ENDED
        again = settlement.state is State.RETRY
        facts = Facts(
            outcome=verdict.outcome,
            exit_code=ending.exit_code if ending else None,
            signal=ending.signal if ending else None,
            usage_json=usage_json(ending.usage) if ending else None,
            next_at_ms=now_ms + int(settlement.delay_s * 1000) if again else None,
            expires_at=expires_at(settlement.state, tools.retention, now_ms) if ended else None,
        )
        for tries in count():
            try:
                await in_thread(lambda: tools.jobs.settle(head, step, facts), "settle")
                break
            except (BotoCoreError, ClientError) as error:
                if self._abandoned:
                    raise Refused(None) from error
                if tries == 0:
                    log.warning("job %s: outcome waits for AWS: %s", head.job_id, error)
                await asyncio.sleep(RETRY_S[min(tries, len(RETRY_S) - 1)])
        return settlement


def _asked_to_end(head: Head | None, epoch: int) -> bool:
    """Whether a refusal only means that somebody asked for the job's end."""
    return (
        head is not None
        and head.state is State.ACTIVE
        and head.epoch == epoch
        and head.cancel_requested is not None
    )


async def _readable(fd: int) -> None:
    """Wait until a descriptor is readable."""
    loop = asyncio.get_running_loop()
    ready = asyncio.Event()
    loop.add_reader(fd, ready.set)
    try:
        await ready.wait()
    finally:
        loop.remove_reader(fd)
