"""Leases: an agent's heartbeat is its lease on all its jobs."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from joblane.state.stats import JobStats

HEARTBEAT_S = 10
"""Seconds between two heartbeats."""

LEASE_S = 300
"""Seconds from a heartbeat to the end of the lease it gives. Every heartbeat contains the lease of
its agent, so that agents with another lease may work beside it."""

UNLISTED_MS = 10_000
"""A heartbeat without a job shows that the agent does not have the job, if the heartbeat was
written more than this after the claim. An agent lists a job before it claims it; the margin allows
for a clock that was set back a little in between."""


PROGRESS_BYTES = 16_384
"""Most bytes that the progress of jobs takes in one heartbeat: each KB costs a write unit."""


NO_EGRESS = "runs no jobs with network egress"
"""Begins the `trouble` of an agent that is well but for that: it takes all other jobs."""


Mode = Literal["cordoned", "draining"]
"""Why an agent takes nothing new: an operator cordoned it, or it is about to leave, asked to or by
itself."""


AgentState = Literal["ready", "cordoning", "cordoned", "draining", "gone"]
"""What an agent is for operators; `cordoning` is cordoned with jobs that still run."""


@dataclass(frozen=True, slots=True)
class Progress:
    """What a running job reported last."""

    percent: float | None
    """From 0 to 100."""
    message: str | None
    at_ms: int
    """When, in Unix milliseconds."""
    step: str | None = None
    """Which part of its work it is at."""
    current: int | None = None
    """What it has done of `total`, which may be unknown."""
    total: int | None = None

    @property
    def text(self) -> str:
        """What was said, in one line."""
        parts = [] if self.percent is None else [f"{self.percent:g} %"]
        if self.current is not None:
            of = "" if self.total is None else f" of {self.total:,}"
            parts.append(f"({self.current:,}{of})")
        parts += [f"{self.step}:" if self.message else self.step] if self.step else []
        parts += [self.message] if self.message else []
        return " ".join(parts)


@dataclass(frozen=True, slots=True)
class AttemptProgress:
    """The progress of one attempt in a heartbeat."""

    job_id: str
    epoch: int
    progress: Progress

    def encode(self) -> str:
        """Encode as one compact string, an entry of the heartbeat's `progress`.

        What was not said at its end is left out: bytes of a heartbeat are paid for.
        """
        said = self.progress
        row = [self.job_id, self.epoch, said.percent, said.message, said.at_ms]
        row += [said.step, said.current, said.total]
        while row[-1] is None:
            row.pop()
        return json.dumps(row, separators=(",", ":"), ensure_ascii=False)

    @classmethod
    def decode(cls, text: str) -> "AttemptProgress":
        """Inverse of `encode`."""
        job_id, epoch, *said = json.loads(text)
        return cls(job_id, epoch, Progress(*said[:6]))


def bound_progress(progress: Iterable[AttemptProgress]) -> tuple[AttemptProgress, ...]:
    """The entries that fit a heartbeat, the latest first."""
    kept, left = [], PROGRESS_BYTES
    for entry in sorted(progress, key=lambda entry: -entry.progress.at_ms):
        left -= len(entry.encode().encode())
        if left < 0:
            break
        kept.append(entry)
    return tuple(kept)


class HostDisk(NamedTuple):
    """What a file system of an agent's host has for jobs, in MiB."""

    free_mb: int
    """For more jobs; below 0 while one waits for what it has reserved."""
    most_mb: int
    """For one job, if all jobs of the agent ended."""


class HostLoad(NamedTuple):
    """How busy an agent's host is, with all that runs there."""

    load: float
    """Load average of the last minute: tasks that run or wait for a CPU or a disk."""
    free_memory_mb: int
    """Memory that more processes can have without swapping, in MiB (`MemAvailable`)."""


class StatePool(NamedTuple):
    """An agent's connections to its state service, since the agent's start."""

    pool_size: int
    """Most connections at once."""
    active: int
    """In use now."""
    available: int
    """Open and idle now."""
    acquisitions: int
    """Connections lent: requests."""
    creations: int
    """Connections opened."""
    errors: int
    """Connections that could not be opened or broke, without timeouts."""
    timeouts: int
    """Connections that could not be opened, or did not answer, in time."""
    health_checks: int
    """Idle connections that were tested before use."""


class DiskAsk(NamedTuple):
    """What a job asks of a file system of an agent's host."""

    what: str
    """The file system in words."""
    asked_mb: int
    has: HostDisk


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """An agent, as of its last heartbeat."""

    name: str
    since_ms: int
    """When this process of the agent started; it does not hold the jobs of an earlier one."""
    beat_ms: int
    threads: int
    running: int
    """Slots in use. `jobs` may be more: the outcome of a job is stored after its slot is free."""
    queues: tuple[str, ...]
    isolation: str
    version: str
    jobs: tuple[str, ...] = ()
    """Ids of the jobs that were running or being claimed, and of those whose end was not
    reported yet: the jobs to free when the instance ends."""
    trouble: str | None = None
    """Why it takes no jobs or cannot report outcomes; None without a problem."""
    lease_s: int = LEASE_S
    """How long the lease lasts from the heartbeat."""
    progress: tuple[AttemptProgress, ...] = ()
    """What its running jobs reported last (`bound_progress`)."""
    labels: Mapping[str, str] = field(default_factory=dict)
    """By which targets select it."""
    mode: Mode | None = None
    """Why it takes nothing new; None if it takes jobs."""
    uncordoned_ms: int | None = None
    """When this process was uncordoned last; None if it was not."""
    tenants: tuple[str, ...] = ()
    """In whose list each of `jobs` is: a tenant, or empty for members of groups, which are in no
    list. Shorter than `jobs` if it is not known of the last ones."""
    left: int = 0
    """How many more jobs it would take now, of any queue, by its slots, its memory and what its
    host has left."""
    taken: Mapping[str, int] = field(default_factory=dict)
    """Slots in use by queue, without queues that use none."""
    surplus_ms: int | None = None
    """When the scaler named it surplus, in Unix milliseconds: it is to take no new jobs and to
    end its instance once its jobs have ended. None: it was not named."""

    lacks: tuple[str, ...] = ()
    """What its host cannot give any job: limits by their names, and `egress`."""
    memory_mb: int | None = None
    """The most memory that one job may have there, in MiB; None: any."""
    cores: int | None = None
    """Cores that jobs may name: those below it; None: it is not known."""
    disk: HostDisk | None = None
    """The disk with the agent's files; None: it is not known."""
    work_disk: HostDisk | None = None
    """The disk with work directories of jobs that ask for `disk_mb`, if it is another one."""
    host: HostLoad | None = None
    """How busy its host is; None: it is not known."""
    state_pool: StatePool | None = None
    """Its connections to its state service; None: an instance without an agent."""
    stats: Mapping[str, JobStats] = field(default_factory=dict)
    """What running jobs use, by job. A stored heartbeat has as many as cost no write unit, in turn
    (`encode_stats`)."""

    def disk_asks(self, own_mb: int, work_mb: int) -> tuple[DiskAsk, ...]:
        """What a job asks of each of these, with `work_mb` for its work directory."""
        if self.disk is None:
            return ()
        if self.work_disk is None or not work_mb:
            return (DiskAsk("disk", own_mb + work_mb, self.disk),)
        work = DiskAsk("disk for work directories", work_mb, self.work_disk)
        return (DiskAsk("disk", own_mb, self.disk), work)

    def progress_of(self, job_id: str, epoch: int) -> Progress | None:
        """What this attempt of a job reported last, as of the heartbeat."""
        for entry in self.progress:
            if (entry.job_id, entry.epoch) == (job_id, epoch):
                return entry.progress
        return None

    @property
    def lease_end_ms(self) -> int:
        """When its lease ends unless another heartbeat comes, in Unix milliseconds."""
        return self.beat_ms + self.lease_s * 1000

    def alive(self, now_ms: int) -> bool:
        """Whether it still holds the lease on its jobs."""
        return now_ms < self.lease_end_ms

    def state(self, now_ms: int) -> AgentState:
        """Whether it takes jobs, and if not, why."""
        if not self.alive(now_ms):
            return "gone"
        if self.mode == "cordoned" and self.running:
            return "cordoning"
        return self.mode or "ready"

    @property
    def counted_since_ms(self) -> int:
        """From when it counts where limits are shared out: from its start, or from its uncordon.

        While it was cordoned, others had its share.
        """
        return max(self.since_ms, self.uncordoned_ms or 0)

    def shares_limits(self, now_ms: int) -> bool:
        """Whether it gets a share of the limits of queues and tenants.

        A cordoned agent keeps its share while jobs run there, else they would come on top of the
        limit; after that it has none, and the others get it.
        """
        return self.state(now_ms) not in {"cordoned", "gone"}

    def takes(self, queue: str, now_ms: int) -> bool:
        """Whether it takes new jobs of a queue that have a target."""
        return self.mode is None and queue in self.queues and self.alive(now_ms)

    def holds(self, job_id: str, claimed_ms: int, now_ms: int) -> bool:
        """Whether the agent still holds a job that was claimed in its name at `claimed_ms`.

        An agent that crashed and restarted under its name holds only those jobs of its earlier
        process that it lists: the ones in its journal and in its job directories. It does not hold
        a job whose claim was written but whose answer was lost; its heartbeat does not list it:

            agent                        table                      others
            lists the job
            claim  ----------------->    active
                            (answer lost, three times)
            does not list it
            heartbeat  ------------->    row without the job
                                         active, epoch 2   <------  take over

        Both times are by the agent's own clock.
        """
        if not self.alive(now_ms):
            return False
        if job_id in self.jobs:
            return True
        return claimed_ms >= self.since_ms and self.beat_ms - claimed_ms <= UNLISTED_MS
