"""Runs the parts of an agent, adopts the jobs of an earlier process, and drains.

One event loop makes every decision; starts of sandboxes, and calls to AWS that not every job
makes, run in threads.
docs/ARCHITECTURE.md says which task runs when, and who owns what.
"""

import asyncio
import logging
import os
import signal
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import NoReturn

from ec2_agent.attempt.adoption import FoundJob
from ec2_agent.calls import in_thread
from ec2_agent.compose import Parts
from ec2_agent.host import memory
from ec2_agent.logging import events
from ec2_agent.logging.level import LevelSwitch
from ec2_agent.messages.delivery import Delivery
from ec2_agent.presence.notices import Kind, Notice, watch
from joblane import __version__
from joblane.aws.queue.lanes import LaneQueue, Received
from joblane.fleet.idle import LeaveReason
from joblane.job.judge import StopReason
from joblane.job.message import Command

EX_SOFTWARE = 70
"""sysexits.h: a part of the agent failed; its service manager starts it again."""

EX_TEMPFAIL = 75
"""sysexits.h: start again. The unit's RestartForceExitStatus= names it."""

LAUNCHER_GONE_S = 1.0
"""How long an agent without a launcher stays, so that starts under way fail and are recorded."""

FLUSH_S = 10.0
"""How long a draining agent goes on delivering outcomes."""

LAST_FLUSH_S = 120.0
"""The same where the instance ends, and its disk with the journal: its lifecycle hook waits for
five minutes."""

GIVE_BACK_S = 2.0
"""How long an agent that hands its jobs over takes to give back the messages that wait here."""


class Agent:
    """One agent process."""

    def __init__(self, parts: Parts, on_ready: Callable[[], None]) -> None:
        """`on_ready` is called when the agent has announced itself and takes jobs."""
        self._parts = parts
        self._on_ready = on_ready
        self._settings = parts.settings
        self._tasks = parts.desk.tasks
        """Messages being served or given back, and jobs being adopted."""
        self._draining = asyncio.Event()
        self._hurry = asyncio.Event()
        self._scaled_in = False
        """Whether its group ends the instance."""
        self._at_risk = False
        """Whether EC2 has recommended to replace it."""
        self._launcher_pidfd = -1
        self._level = LevelSwitch(parts.lease.clock)

    async def run(self) -> int:
        """Work until SIGTERM or SIGINT, then drain. Returns the exit code.

        A signal while it drains interrupts running jobs at once and waits for no open poll. SIGHUP
        ends this process alone: its jobs run on, and the next process of this name adopts them if
        it starts before the lease is over. Raises what AWS raises if the first heartbeat fails, and
        what the state service raises if the journal cannot be read.
        """
        parts = self._parts
        self._handle_signals()
        for outcome in await parts.journal.recover():
            parts.flight.add(outcome.delivery)
        # In this order: the heartbeat that announces this process lists the jobs it adopts.
        all_found = parts.adoption.find()
        for found in all_found:
            parts.flight.add(found.delivery)
            parts.slots.take(found.delivery)
            # Until its row is read, all but its work directory may be still to come.
            parts.slots.disk.note_started(found.delivery, found.delivery.received.disk_mb)
        await parts.lease.announce()
        parts.journal.resume()  # after a heartbeat that lists these jobs as this agent's
        await parts.limits.begin()
        inbox = await parts.inbox.open()
        self._log_ready()
        self._on_ready()
        for found in all_found:
            self._tasks.start(self._adopt(found))
        # Beside the heartbeats, which must not wait for SQS.
        self._tasks.start(parts.flight.show_again(inbox.url))
        loops = self._start_loops(inbox)
        draining = asyncio.create_task(self._draining.wait(), name="draining")
        done, _ = await asyncio.wait({*loops, draining}, return_when=asyncio.FIRST_COMPLETED)
        broken = [task for task in done if task is not draining]
        for task in broken:  # a loop runs until it is cancelled: this is a bug
            events.loop_ended(task.get_name(), task.exception())
        await self._drain()
        await self._leave()
        with suppress(TimeoutError):
            await asyncio.wait_for(parts.desk.give_back_all(targeted=True), FLUSH_S)
        for task in (*loops, draining):
            task.cancel()
        await asyncio.gather(*loops, draining, return_exceptions=True)
        parts.aws.close()
        self._level.close()
        return 1 if broken else 0

    def _handle_signals(self) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._on_stop_signal)
        loop.add_signal_handler(signal.SIGHUP, self._hand_over)
        self._launcher_pidfd = os.pidfd_open(self._parts.host.launcher.pid)
        loop.add_reader(self._launcher_pidfd, self._on_launcher_gone)

    def _log_ready(self) -> None:
        settings = self._settings
        queues = ", ".join(settings.descriptor.queues)
        events.agent_ready(settings.name, settings.threads, settings.isolation, queues, __version__)
        if self._parts.standing.cordoned:
            events.cordoned(len(self._parts.roster.found))

    def _start_loops(self, inbox: LaneQueue) -> list[asyncio.Task[None]]:
        parts = self._parts
        loops = {
            "intake": parts.intake.run(parts.desk),
            "lease": parts.lease.keep(),
            "limits": parts.limits.keep(),
            "flight": parts.flight.keep(),
            "returns": parts.flight.keep_giving_back(),
            "state": parts.host.supervisor.supervise(),
            "capacity": parts.capacity.keep(),
            "facts": parts.facts.keep(),
            "published facts": parts.published_facts.keep(),
            "memory": memory.keep_small(lambda: parts.desk.busy, self._close_spare),
            "inbox": parts.inbox.run(inbox, self._on_command, partial(self._on_job, inbox.url)),
            "desk": parts.desk.keep(),
            "disk": parts.slots.disk.keep(parts.host.changed.set),
        }
        if parts.metadata is not None:
            loops["notices"] = watch(parts.metadata, self._on_notice)
        if parts.scale_in is not None:
            loops["scale_in"] = parts.scale_in.keep(self._on_scale_in)
        return [asyncio.create_task(loop, name=name) for name, loop in loops.items()]

    def _close_spare(self) -> None:
        """Close the connections that an idle agent does not need."""
        self._parts.aws.close_spare()
        self._parts.host.supervisor.client.close_spare()

    # Draining.

    def _start_draining(self) -> None:
        self._parts.standing.drain()
        self._parts.inbox.drain()
        self._draining.set()

    async def _drain(self) -> None:
        """Let jobs end for a while, interrupt the rest, and wait until all is reported."""
        self._start_draining()
        self._parts.desk.serve()  # gives back what waits, but for targeted jobs
        events.draining(len(self._parts.roster.attempts))
        hurry = asyncio.create_task(self._hurry.wait())
        polls = asyncio.create_task(self._parts.intake.stop())
        work = asyncio.create_task(self._tasks.done())
        await asyncio.wait(
            {hurry, work}, timeout=self._settings.drain_s, return_when=asyncio.FIRST_COMPLETED
        )
        self._parts.roster.stop_all(StopReason.DRAIN)
        await work
        # An open poll may still bring a message, which would stay hidden for two minutes if this
        # process ended before giving it back; SQS answers within LONG_POLL_S.
        ended = asyncio.gather(polls, self._parts.inbox.stop())
        await asyncio.wait((hurry, ended), return_when=asyncio.FIRST_COMPLETED)
        ended.cancel()
        await self._tasks.done()  # messages of the last polls are being given back
        hurry.cancel()

    async def _leave(self) -> None:
        """Deliver outcomes, give up the lease, and let the Auto Scaling group go on."""
        journal, scale_in = self._parts.journal, self._parts.scale_in
        if await journal.flush(LAST_FLUSH_S if self._scaled_in else FLUSH_S):
            if self._at_risk and not self._scaled_in and scale_in is not None:
                self._scaled_in = await scale_in.end_instance(LeaveReason.REBALANCE)
            await self._parts.lease.end()
            await self._parts.published_facts.end()
        else:
            # The lease is kept: without it, other agents would run jobs again that have ended.
            events.outcomes_stay(journal.waiting, journal.trouble)
        if self._scaled_in:
            await self._parts.group.complete_lifecycle_action()

    # Jobs of an earlier process.

    async def _adopt(self, found: FoundJob) -> None:
        """Follow a job that an earlier process of this agent started to its end, or end it."""
        parts, delivery = self._parts, found.delivery
        try:
            reported = found.job_id in parts.journal.job_ids
            head = None
            if not reported:
                head = await parts.adoption.check(found, self._settings.name, parts.lease)
            if head is None:
                if not reported:  # otherwise the journal releases the message
                    parts.flight.abandon(delivery)
                await parts.adoption.end(found, parts.output)
                return
            parts.slots.note_started(head, delivery)
            await parts.runner.adopt(head, found)
        finally:
            parts.roster.drop_found(found)
            parts.slots.release(delivery)
        await in_thread(parts.host.launcher.remove_leftovers, "leftovers")

    # Signals, notices, commands.

    def _on_stop_signal(self) -> None:
        if self._draining.is_set():
            self._hurry.set()
        self._start_draining()

    def _on_notice(self, notice: Notice) -> None:
        """Drain in the time that the notice leaves."""
        events.drain_requested(str(notice))
        self._scaled_in |= notice.kind is Kind.SCALE_IN
        self._at_risk |= notice.kind is Kind.REBALANCE
        self._start_draining()
        drain_s = notice.drain_s(self._settings.drain_s)
        asyncio.get_running_loop().call_later(drain_s, self._hurry.set)

    def _on_scale_in(self) -> None:
        """Drain at once: the group ends the instance, and nothing is left here."""
        self._scaled_in = True
        self._start_draining()

    def _on_job(self, url: str, received: Received) -> None:
        """Take the message of a targeted job from the inbox."""
        parts = self._parts
        queue = received.job_queue or ""
        parts.desk.receive(Delivery(queue, url, None, received, parts.host.clock()))

    def _on_command(self, command: Command) -> None:
        """Act on a command from the inbox; one for a job that does not run here is ignored."""
        match command.command:
            case "drain":
                events.drain_requested("an operator asked for it")
                self._start_draining()
            case "cordon":
                self._parts.standing.cordon(len(self._parts.roster.attempts))
            case "uncordon":
                self._parts.standing.uncordon()
            case "log-level" if command.level is not None and command.until_ms is not None:
                self._level.set(command.level, command.until_ms)
            case "cancel" if command.job_id is not None:
                for stopped in self._parts.roster.stop(command.job_id):
                    events.job_command(stopped.head, command.command)
            case "follow":
                for attempt in self._parts.roster.attempts:
                    if attempt.head.job_id == command.job_id:
                        attempt.follow()

    def _on_launcher_gone(self) -> None:
        """Let the next process start a launcher: without one no job can be started.

        Starts under way fail meanwhile, and are written to the journal as interrupted.
        """
        loop = asyncio.get_running_loop()
        loop.remove_reader(self._launcher_pidfd)
        events.launcher_died()
        self._parts.offers.shut = True
        loop.call_later(LAUNCHER_GONE_S, self._hand_over, EX_SOFTWARE)

    def _hand_over(self, code: int = EX_TEMPFAIL) -> None:
        """Exit, and leave the running jobs to the next process of this name.

        At once, but for messages that wait: they are given back first, or that process would not
        receive them for two minutes.
        """
        parts = self._parts
        events.handed_over(len(parts.roster.attempts))
        parts.offers.shut = True
        if not len(parts.desk.room):
            self._exit(code)
        returned = asyncio.gather(
            parts.desk.give_back_all(targeted=True), parts.desk.give_back_all(targeted=False)
        )
        returned.add_done_callback(lambda _: self._exit(code))
        asyncio.get_running_loop().call_later(GIVE_BACK_S, self._exit, code)

    @staticmethod
    def _exit(code: int) -> NoReturn:
        logging.shutdown()
        os._exit(code)
