"""What an agent that starts does with the jobs that its earlier process had started.

A shim keeps each of them, and its directory says where it is. The claim stays as it was: this
agent has the same name, and its lease goes on.

    earlier process                shim                     this process
    starts a job                   keeps it
    last heartbeat at 0            may keep it up to 240
    (killed)                       keeps it
                                                            finds it, lists it
                                                            heartbeat at 20
                                   up to 260         <---   renews

If no agent comes the shim kills the job at 240, a minute before others may take it over.
"""

import asyncio
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from botocore.exceptions import BotoCoreError, ClientError

from ec2_agent.calls import in_thread
from ec2_agent.clock import Clock
from ec2_agent.events import JobFound, NotAdoptedYet, StrangerKilled
from ec2_agent.flight import Held
from ec2_agent.found import ENDING_S, clear, reach
from ec2_agent.kept import Folder, Kept, Link
from ec2_agent.lease import Lease
from ec2_agent.log_event import tell
from ec2_agent.output import Shipper
from ec2_agent.sandbox import Launcher
from ec2_agent.shim import files
from ec2_agent.shim.pool import Shims
from ec2_agent.spool import Spool
from joblane.aws.jobs import JobStore
from joblane.aws.lanes import LaneQueue, Received
from joblane.aws.logs import LogStore
from joblane.head import Head
from joblane.lifecycle import State
from joblane.logs import stream_name
from joblane.message import decode

if TYPE_CHECKING:
    from mypy_boto3_sqs.client import SQSClient

AGAIN_S = 1.0
"""Pause before another try to read a job that was found."""


@dataclass(frozen=True, slots=True)
class Home:
    """What an agent needs of its host to run jobs."""

    launcher: Launcher
    shims: Shims
    jobs: Path
    """The directories of its jobs."""
    clock: Clock


@dataclass(frozen=True, slots=True, eq=False)
class Orphan:
    """A job that was found, and is not known to be ours yet."""

    job_id: str
    epoch: int
    held: Held
    kept: Kept

    def kill(self) -> None:
        """Kill it at once."""
        if self.kept.link is not None:
            self.kept.link.kill()

    def renew(self, until: float) -> None:
        """Let it run up to then."""
        if self.kept.link is not None:
            self.kept.link.renew(until)


class Adoption:
    """Finds the jobs of an earlier process, and finds out whether they are still this agent's."""

    def __init__(self, jobs: Path, sqs: "SQSClient", store: JobStore) -> None:
        self._jobs = jobs
        self._sqs = sqs
        self._store = store
        self.orphans: list[Orphan] = []
        """Those that were found, until each is an attempt or has been ended."""

    def find(self) -> None:
        """Look at every directory, and connect to the shims that live. Raises ShimSilent."""
        for folder in Folder.all(self._jobs):
            spec = folder.read(files.SPEC)
            if spec is None:
                clear(folder)  # killed while it was being made, or the disk lost it
                continue
            received = Received(spec["body"], spec["receipt"], spec["receives"], spec["sent_ms"])
            held = Held(
                LaneQueue(self._sqs, spec["lane"]),
                LaneQueue(self._sqs, spec["dead_letters"]),
                spec["queue"],
                received,
                spec["since"],
            )
            shim = reach(folder)
            kept = Kept(folder, None if shim is None else Link(shim))
            self.orphans.append(Orphan(spec["job_id"], spec["epoch"], held, kept))
            how = "runs" if shim is not None else "has ended"
            tell(JobFound(spec["job_id"], spec["epoch"], how))

    async def check(self, orphan: Orphan, agent: str, lease: Lease) -> Head | None:
        """Give the job if it is still this agent's to run and to report; None if it is not."""
        while lease.held:
            try:
                head = await in_thread(lambda: self._store.get(orphan.job_id), "adopt")
            except (BotoCoreError, ClientError) as error:
                tell(NotAdoptedYet(orphan.job_id, error))
                await asyncio.sleep(AGAIN_S)
                continue
            mine = head is not None and (head.state, head.epoch, head.agent) == (
                State.ACTIVE,
                orphan.epoch,
                agent,
            )
            return head if mine else None
        return None

    async def end(self, orphan: Orphan, logs: LogStore) -> None:
        """Let go of a job that somebody else has, or that was reported before the end.

        The output of one that was reported may still lack its last records.
        """
        folder = orphan.kept.folder
        running = orphan.kept.link is not None
        orphan.kill()
        end = await orphan.kept.end()
        if not running and end is not None and not end.lease_lost:
            stream = stream_name(
                decode(orphan.held.received.body).tenant, orphan.job_id, orphan.epoch
            )
            spool = Spool(folder.reader(), folder.note_shipped)
            shipper = Shipper(spool, asyncio.Event(), lambda _: None, (logs, stream))
            await shipper.finish(None)
        elif running:
            tell(StrangerKilled(orphan.job_id))
        orphan.kept.remove()
        await orphan.kept.gone(ENDING_S)

    def done(self, orphan: Orphan) -> None:
        """Forget an orphan: it is an attempt now, or gone."""
        if orphan in self.orphans:
            self.orphans.remove(orphan)
