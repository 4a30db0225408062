"""One attempt of one job: from the claim to the settled outcome and the message's end."""

import asyncio
import logging
import os
import socket
from dataclasses import replace
from itertools import count

from botocore.exceptions import BotoCoreError, ClientError

from ec2_agent.calls import in_thread
from ec2_agent.decisions import (
    GRACE_S,
    Ask,
    Obstacle,
    Verdicted,
    judge,
    obstacle_of,
    of_asked,
    of_blocking,
    sandbox_spec,
)
from ec2_agent.finished import End, finish
from ec2_agent.flight import Held
from ec2_agent.line import Line, Listener
from ec2_agent.output import Capture, Shipper
from ec2_agent.report import RETRY_S, Tools, letter_of
from ec2_agent.sandbox import Ending, Sandbox, SandboxRefused
from ec2_agent.secret_env import NotStarted, read_secret_env
from ec2_agent.spool import Spool
from joblane.aws.payloads import PayloadLost
from joblane.aws.requirements import Blocking, NoAnswer
from joblane.conditions import requested, scoped
from joblane.head import Head
from joblane.lifecycle import Outcome
from joblane.logs import stream_name

SHIP_TIMEOUT_S = 10.0
"""How long an outcome waits for its output to arrive: a reader who sees the end should find all
of it. After that the outcome goes first, and the output follows."""

log = logging.getLogger(__name__)


class Attempt:
    """A claimed job while it runs here."""

    def __init__(self, tools: Tools, head: Head, held: Held) -> None:
        self._tools = tools
        self.head = head
        self._held = held
        self._sandbox: Sandbox | None = None
        self._line: Line | None = None
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
        tools, head = self._tools, self.head  # the head as claimed: small, and enough to report
        spool = Spool()
        capture = Capture(spool, tools.clock)
        stream = stream_name(head.tenant, head.job_id, head.epoch)
        shipper = Shipper(spool, capture.written, tools.logs, stream)
        ending: Ending | None = None
        try:
            verdict = await self._obstacle() or await self._fetch()
            if verdict is None:
                ending = await self._execute(capture)
                verdict = judge(head, ending, self._ask, self._waits_for(), tools.now_ms())
        except SandboxRefused as refusal:
            verdict = Verdicted(Outcome.REFUSED, f"not started: {refusal.reason}")
        except NotStarted as stopped:
            verdict = stopped.verdict
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
        end = End(verdict, ending, records, tools.now_ms())
        letter = letter_of(self._held)
        await tools.journal.put(finish(head, letter, end, tools.retention, tools.dice))

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
            log.warning("job %s: its conditions were not tested: %s", self.head.job_id, error)
            blocking = Blocking(requires[0], "could not be tested", hopeless=False)
        return None if blocking is None else of_blocking(blocking)

    async def _fetch(self) -> Verdicted | None:
        """Fetch a submission that lies in S3, however long AWS takes.

        Returns what ends the attempt instead: it is lost, or somebody asked for its end first.
        """
        head, payloads = self.head, self._tools.payloads
        for tries in count():
            try:
                self.head = await in_thread(lambda: payloads.whole(head), "fetch")
            except PayloadLost as lost:
                return Verdicted(Outcome.PERMANENT, str(lost))
            except (BotoCoreError, ClientError) as error:
                if tries == 0:
                    log.warning("job %s: its submission waits for AWS: %s", head.job_id, error)
            else:
                return None
            if self._abandoned or self._ask is not None:
                ask = self._ask or Ask.LEAVING
                return of_asked(head, ask, self._tools.now_ms(), "ended before it ran")
            await asyncio.sleep(RETRY_S[min(tries, len(RETRY_S) - 1)])
        raise AssertionError("count ended")

    def _waits_for(self) -> Obstacle | None:
        """What the job waits for if it exits with 75; None where nobody could tell when."""
        if self._tools.conditions is None:
            return None
        named = None if self._line is None else self._line.condition
        return obstacle_of(self.head, named)

    def _check_condition(self, name: str) -> None:
        """Raise ValueError for a condition that a job may not name."""
        if self._tools.conditions is None:
            raise ValueError("this deployment has no recovery, so nothing can be waited for")
        requested(name)

    def _requires(self) -> tuple[str, ...]:
        return tuple(scoped(name, self.head.tenant) for name in self.head.spec.requires)

    async def _secrets(self) -> dict[str, str]:
        """Read the job's secrets. Raises NotStarted if they cannot be had."""

        def asked() -> Ask | None:
            return Ask.LEAVING if self._abandoned else self._ask

        tools = self._tools
        return await read_secret_env(tools.secrets, self.head, asked, tools.now_ms)

    async def _execute(self, capture: Capture) -> Ending:
        """Run the command in its sandbox. Raises SandboxRefused if it cannot be had."""
        spec = sandbox_spec(self.head)
        spec = replace(spec, env={**spec.env, **await self._secrets()})
        stdout, stderr = capture.pipe("stdout"), capture.pipe("stderr")
        ours, theirs = socket.socketpair()
        self._line = Line(ours, self._check_condition, asyncio.get_running_loop().time())
        listener = Listener(self._line)
        try:
            with theirs:
                sandbox = await in_thread(
                    lambda: self._tools.launcher.start(
                        spec, stdout=stdout, stderr=stderr, line=theirs.fileno()
                    ),
                    "start",
                )
        except BaseException:
            listener.close()
            raise
        finally:
            os.close(stdout)
            os.close(stderr)
        self._sandbox = sandbox
        # Whoever asked us to stop while the sandbox was being made found none to stop.
        if self._abandoned:
            sandbox.stop(0)
        elif self._ask is not None:
            sandbox.stop(GRACE_S)
        try:
            await _readable(sandbox.fileno())
            return sandbox.wait()
        finally:
            listener.close()


async def _readable(fd: int) -> None:
    """Wait until a descriptor is readable."""
    loop = asyncio.get_running_loop()
    ready = asyncio.Event()
    loop.add_reader(fd, ready.set)
    try:
        await ready.wait()
    finally:
        loop.remove_reader(fd)
