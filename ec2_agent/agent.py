"""The agent: composes its parts, admits messages to slots, and leaves in order.

One event loop decides; every call to AWS and every start of a sandbox runs in a thread. What
runs when, and who owns what, is told in docs/ARCHITECTURE.md.
"""

import asyncio
import logging
import os
import random
import signal
import time
from collections import Counter
from collections.abc import Coroutine, Mapping
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from ec2_agent import memory
from ec2_agent.adoption import Adoption, Home, Orphan
from ec2_agent.attempt import Attempt
from ec2_agent.aws import make_aws
from ec2_agent.calls import in_thread
from ec2_agent.caps import Caps
from ec2_agent.claiming import Claimer, Stores
from ec2_agent.decisions import Ask
from ec2_agent.events import (
    AgentReady,
    ClaimFailed,
    HandedOver,
    JobAsked,
    LauncherDied,
    LeaseLost,
    Leaving,
    LoopEnded,
    OutcomesStay,
    ToldToLeave,
)
from ec2_agent.flight import Flight, Held
from ec2_agent.group import Group
from ec2_agent.inbox import Inbox
from ec2_agent.intake import Intake
from ec2_agent.journal import Journal
from ec2_agent.kept import Keep, boottime
from ec2_agent.lease import Lease
from ec2_agent.log_event import tell
from ec2_agent.notices import Kind, Metadata, Notice, watch
from ec2_agent.report import Report, Tools
from ec2_agent.room import Jobs, Room
from ec2_agent.settings import Settings
from ec2_agent.state.keeper import Keeper
from joblane.aws.clients import Clients
from joblane.aws.lanes import LaneQueue
from joblane.head import rfc3339
from joblane.message import Command
from joblane.names import inbox_name

EX_SOFTWARE = 70
"""sysexits.h: a part of the agent failed; whoever keeps it running starts it again."""

EX_TEMPFAIL = 75
"""sysexits.h: come again. The unit's RestartForceExitStatus= names it."""

LAUNCHER_GONE_S = 1.0
"""How long an agent that lost its launcher stays, for starts under way to fail and be noted."""

TROUBLE_S = 5
"""How long a message rests whose job could not be claimed, because AWS did not answer."""

WAITING_S = 5.0
"""An outcome that has waited for longer is told of."""

MOST_TROUBLE = 500
"""Characters of trouble in a heartbeat."""

FLUSH_S = 10.0
"""How long an agent that leaves goes on delivering outcomes."""


class Agent:
    """One agent process."""

    def __init__(
        self,
        settings: Settings,
        clients: Clients,
        home: Home,
        keeper: Keeper,
        metadata: Metadata | None = None,
    ) -> None:
        """Compose the parts around a state service that has been started.

        Without `metadata` nobody asks for notices of the instance's end.
        """
        self._settings = settings
        descriptor, clock = settings.descriptor, home.clock
        aws = make_aws(descriptor, clients, clock)
        self._taken: Counter[str] = Counter()
        self._work: set[asyncio.Task[object]] = set()
        self._attempts: set[Attempt] = set()
        self._leaving = asyncio.Event()
        self._hurry = asyncio.Event()
        self._launcher = home.launcher
        self._crippled = False
        """Whether the launcher has died: nothing can be started."""
        self._metadata = metadata
        self._group = Group(aws.autoscaling, settings)
        self._scaled_in = False
        self._flight = Flight(clock)
        stores = Stores(aws.jobs, aws.agents, aws.conditions)
        self._claimer = Claimer(settings, stores, self._flight, clock)
        report = Report(aws.jobs, aws.conditions, self._flight, lambda url: LaneQueue(aws.sqs, url))
        self._report = report
        self._keeper = keeper
        self._journal = Journal(keeper.client, report, clock)
        keeper.client.resync_from(self._journal.records)
        self._room = Room(
            settings.directory,
            settings.threads,
            lambda: self._journal.room,
            lambda: Jobs(self._taken.total(), sum(a.started for a in self._attempts)),
            time.monotonic,
            lambda: self._intake.changed.set(),  # noqa: PLW0108 - it is made later
        )
        self._tools = Tools(
            jobs=aws.jobs,
            payloads=aws.payloads,
            logs=aws.logs,
            conditions=aws.conditions,
            requirements=aws.requirements,
            launcher=home.launcher,
            keep=Keep(home.shims, home.jobs, lambda: self._lease.until, aws.conditions is not None),
            secrets=aws.secrets,
            flight=self._flight,
            journal=self._journal,
            room=self._room,
            retention=descriptor.retention,
            clock=clock,
            dice=random.Random(),  # noqa: S311 - jitter, not a secret
        )
        self._lease = Lease(
            settings,
            aws.agents,
            clock,
            boottime,
            self._running,
            self._trouble,
            self._on_lease_lost,
            self._on_renewed,
        )
        self._adoption = Adoption(home.jobs, aws.sqs, aws.jobs)
        name = inbox_name(descriptor.name, settings.name)
        self._inbox = Inbox(aws.sqs, name, self._on_command)
        self._intake = Intake(
            aws.lane_pairs(descriptor), self._free, self._admit, clock, time.monotonic
        )
        self._caps = Caps(settings, aws.settings, self._intake.changed.set)
        keeper.on_change = self._intake.changed.set

    async def run(self) -> int:
        """Work until SIGTERM or SIGINT, then leave in order. Returns the exit code.

        A second signal hurries: running jobs are interrupted at once, and open polls are not
        waited for. SIGHUP ends this process alone: its jobs run on, and the next process under
        this name adopts them, if it comes before the lease is over. Raises what AWS says if the
        agent cannot even announce itself, and what the state service says if its journal cannot
        be read.
        """
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._leave)
        loop.add_signal_handler(signal.SIGHUP, self._hand_over)
        self._launcher_end = os.pidfd_open(self._launcher.pid)
        loop.add_reader(self._launcher_end, self._on_launcher_gone)
        for finished in await self._journal.recover():
            self._flight.add(self._report.held(finished.letter))
        # In this order: what is adopted is listed by the heartbeat that says that we are new.
        self._adoption.find()
        await self._lease.begin()
        self._journal.resume()  # after a heartbeat that lists these jobs as this agent's
        await self._caps.begin()
        inbox = await self._inbox.open()
        settings = self._settings
        queues = ", ".join(settings.descriptor.queues)
        tell(
            AgentReady(
                settings.name, settings.threads, settings.isolation, queues, settings.version
            )
        )
        for orphan in self._adoption.orphans:
            self._track(self._adopt(orphan))
        loops = [
            asyncio.create_task(self._intake.run(), name="intake"),
            asyncio.create_task(self._lease.keep(), name="lease"),
            asyncio.create_task(self._caps.keep(), name="caps"),
            asyncio.create_task(self._flight.keep(), name="flight"),
            asyncio.create_task(self._keeper.keep(), name="state"),
            asyncio.create_task(self._room.keep(), name="room"),
            asyncio.create_task(memory.keep_small(lambda: bool(self._work)), name="memory"),
            asyncio.create_task(self._inbox.run(inbox), name="inbox"),
        ]
        if self._metadata is not None:
            watching = watch(self._metadata, self._on_notice)
            loops.append(asyncio.create_task(watching, name="notices"))
        leaving = asyncio.create_task(self._leaving.wait(), name="leaving")
        done, _ = await asyncio.wait({*loops, leaving}, return_when=asyncio.FIRST_COMPLETED)
        broken = [task for task in done if task is not leaving]
        for task in broken:  # a loop never ends by itself: this is a defect of ours
            tell(LoopEnded(task.get_name()), task.exception())
        await self._drain()
        if await self._journal.flush(FLUSH_S):
            await self._lease.end()
        else:
            # No goodbye: it would hand jobs that have ended to others, to be run again.
            tell(OutcomesStay(self._journal.waiting, self._journal.trouble))
        if self._scaled_in:
            await self._group.let_go()
        for task in (*loops, leaving):
            task.cancel()
        await asyncio.gather(*loops, leaving, return_exceptions=True)
        return 1 if broken else 0

    def _leave(self) -> None:
        if self._leaving.is_set():
            self._hurry.set()
        self._leaving.set()

    async def _drain(self) -> None:
        """Let jobs end for a while, interrupt the rest, and wait until all is reported."""
        self._leaving.set()
        tell(Leaving(len(self._attempts)))
        hurry = asyncio.create_task(self._hurry.wait())
        polls = asyncio.create_task(self._intake.stop())
        work = asyncio.create_task(self._work_done())
        await asyncio.wait(
            {hurry, work}, timeout=self._settings.drain_s, return_when=asyncio.FIRST_COMPLETED
        )
        for attempt in self._attempts:
            attempt.ask_to_end(Ask.LEAVING)
        await work
        # An open poll may still bring a message, which would stay hidden for two minutes if
        # nobody were here to give it back; SQS answers within LONG_POLL_S.
        await asyncio.wait({hurry, polls}, return_when=asyncio.FIRST_COMPLETED)
        polls.cancel()
        await self._work_done()  # what an open poll still brought is being given back
        hurry.cancel()

    async def _work_done(self) -> None:
        while self._work:
            await asyncio.wait(self._work)

    def _running(self) -> list[str]:
        """Ids of the jobs that are this agent's, those included that it is about to claim.

        Whoever finds a job active here that no heartbeat lists takes it over
        (`AgentRow.holds`), so a job is listed before its claim and until its report.
        """
        return [
            *self._claimer.claiming,
            *(attempt.head.job_id for attempt in self._attempts),
            *self._journal.job_ids,
            *(orphan.job_id for orphan in self._adoption.orphans),
        ]

    def _trouble(self) -> str | None:
        """Why no work is taken, and what waits to be reported, in one line."""
        journal, why = self._journal, []
        if (lack := self._keeper.trouble or self._room.why) is not None:
            why.append(f"takes no jobs: {lack}")
        if journal.waiting and journal.oldest_s >= WAITING_S:
            what = f"{journal.waiting} outcome(s) wait since {rfc3339(journal.since_ms or 0)}"
            why.append(f"{what}: {journal.trouble or 'their messages are still held'}")
        return "; ".join(why)[:MOST_TROUBLE] or None

    def _free(self) -> Mapping[str, int]:
        """Free slots by queue."""
        queues = self._settings.descriptor.queues
        away = self._leaving.is_set() or self._crippled
        if away or not self._lease.held or self._keeper.trouble:
            return dict.fromkeys(queues, 0)
        left = self._room.left
        return {name: min(left, self._caps.of(name) - self._taken[name]) for name in queues}

    def _admit(self, held: Held) -> None:
        """Take a slot for a message; a message without a slot goes back to its lane."""
        if self._free()[held.queue] <= 0:
            work: Coroutine[Any, Any, object] = self._flight.give_back(held, 0)
        else:
            self._taken[held.queue] += 1
            self._flight.add(held)
            work = self._serve(held)
        self._track(work)

    def _track(self, work: Coroutine[Any, Any, object]) -> None:
        task = asyncio.create_task(work)
        self._work.add(task)
        task.add_done_callback(self._work.discard)

    async def _serve(self, held: Held) -> None:
        """Claim the job that a message names, and run it."""
        try:
            head = await self._claimer.claim(held)
            if head is not None:
                await self._run(Attempt(self._tools, head, held))
        except (BotoCoreError, ClientError) as error:
            # Not claimed, or claimed and the answer lost: the message is seen again, and the
            # claim's conditions tell which.
            tell(ClaimFailed(error))
            await self._flight.give_back(held, TROUBLE_S)
        finally:
            self._taken[held.queue] -= 1
            self._intake.changed.set()

    async def _run(self, attempt: Attempt) -> None:
        self._attempts.add(attempt)
        try:
            if not self._lease.held:
                attempt.abandon()
            await attempt.run()
        finally:
            self._attempts.discard(attempt)

    async def _adopt(self, orphan: Orphan) -> None:
        """Go on with a job that this agent's earlier process had started, or end it."""
        self._taken[orphan.held.queue] += 1
        self._flight.add(orphan.held)
        try:
            waits = orphan.job_id in self._journal.job_ids
            head = (
                None
                if waits
                else await self._adoption.check(orphan, self._settings.name, self._lease)
            )
            if head is None:
                if not waits:  # what the journal holds, it lets go of
                    self._flight.abandon(orphan.held)
                await self._adoption.end(orphan, self._tools.logs)
                return
            attempt = Attempt(self._tools, head, orphan.held, orphan.kept)
            attempt.renew(self._lease.until)
            self._attempts.add(attempt)
            self._adoption.done(orphan)
            if head.cancel_requested is not None:  # while nobody was here to hear of it
                attempt.ask_to_end(Ask.TOLD)
            await self._run(attempt)
        finally:
            self._adoption.done(orphan)
            self._taken[orphan.held.queue] -= 1
            self._intake.changed.set()
        await in_thread(self._launcher.remove_leftovers, "leftovers")

    def _on_notice(self, notice: Notice) -> None:
        """Leave, in the time that there is."""
        tell(ToldToLeave(str(notice)))
        self._scaled_in |= notice.kind is Kind.SCALE_IN
        self._leaving.set()
        drain_s = notice.drain_s(self._settings.drain_s)
        asyncio.get_running_loop().call_later(drain_s, self._hurry.set)

    def _on_command(self, command: Command) -> None:
        """Act on a command from the inbox; a job that does not run here needs nothing."""
        if command.command == "drain":
            tell(ToldToLeave("an operator asked for it"))
            self._leaving.set()
        for attempt in self._attempts:
            if attempt.head.job_id == command.job_id:
                tell(JobAsked(command.job_id, command.command))
                attempt.ask_to_end(Ask.TOLD)

    def _on_lease_lost(self) -> None:
        if self._attempts:
            tell(LeaseLost(len(self._attempts)))
        for attempt in self._attempts:
            attempt.abandon()
        for orphan in self._adoption.orphans:
            orphan.kill()

    def _on_renewed(self, until: float) -> None:
        for attempt in self._attempts:
            attempt.renew(until)
        for orphan in self._adoption.orphans:
            orphan.renew(until)

    def _on_launcher_gone(self) -> None:
        """Without a launcher no job can be started: let the next process have one of its own.

        What was about to start is written to the journal as interrupted in the meantime.
        """
        loop = asyncio.get_running_loop()
        loop.remove_reader(self._launcher_end)
        tell(LauncherDied())
        self._crippled = True
        loop.call_later(LAUNCHER_GONE_S, self._hand_over, EX_SOFTWARE)

    def _hand_over(self, code: int = EX_TEMPFAIL) -> None:
        """Go at once, and leave the running jobs to the process that comes next."""
        tell(HandedOver(len(self._attempts)))
        logging.shutdown()
        os._exit(code)
