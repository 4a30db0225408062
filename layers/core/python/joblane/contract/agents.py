"""Agents in the API."""

from collections.abc import Mapping
from typing import Annotated

from pydantic import Field

from joblane.contract.audit import Because
from joblane.contract.models import Page, View
from joblane.deployment.log_level import MAX_LEVEL_S, LogLevel
from joblane.state.lease import AgentState
from joblane.state.lifecycle import State
from joblane.target.facts import FactValue


class DiskView(View):
    """What a disk of an agent's host has for jobs, in MiB."""

    free_mb: int
    """For more jobs; what jobs on the agent may still write is not free. Below 0 while one waits
    for what it has reserved."""
    most_mb: int
    """For one job, if all jobs of the agent ended."""


class StatePoolView(View):
    """The connections of an agent to its state service, since the agent's start."""

    pool_size: int
    """Most connections at once."""
    active: int
    """In use at the heartbeat."""
    available: int
    """Open and idle at the heartbeat."""
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


class AgentView(View):
    """An agent, as of its last heartbeat."""

    name: str
    """The agent's name, unique in the deployment."""
    alive: bool
    """Whether it holds the lease on its jobs."""
    last_seen_at: str
    """Time of the last heartbeat."""
    threads: int
    """Number of slots."""
    running: int
    """Number of running jobs."""
    queues: tuple[str, ...]
    """Queues that it serves."""
    isolation: str
    """`full` or `namespaces`."""
    version: str
    """Its version of Joblane."""
    trouble: str | None = None
    """Why it takes no jobs, or which reports are waiting; null if there is no problem."""
    lacks: tuple[str, ...] = ()
    """What its host cannot give any job: limits by their names, and `egress`."""
    memory_mb: int | None = None
    """The most memory that one job may have there, in MiB; null: any."""
    cores: int | None = None
    """Cores that jobs may name: those below it; null: it is not known."""
    disk: DiskView | None = None
    """The disk for input files, bundles, output, and work directories of jobs with `disk_mb`; null:
    it is not known."""
    work_disk: DiskView | None = None
    """The disk for work directories, if they have one of their own."""
    load: float | None = None
    """Load average of its host in the last minute: tasks that run or wait for a CPU or a disk, of
    jobs and of all else; null: it is not known."""
    free_memory_mb: int | None = None
    """Memory of its host that is available, in MiB; null: it is not known. It may be reserved for
    jobs that run: `memory_mb` is what jobs may have."""
    state: AgentState
    """`ready`; `cordoning`: cordoned, with jobs that still run; `cordoned`; `draining`; or `gone`:
    no heartbeat for the time of its lease."""
    labels: dict[str, str]
    """Its labels, by which targets select it."""
    facts: Mapping[str, FactValue] = {}
    """Facts by name: all of a single agent, those asked for in a list. Empty if none are known: the
    agent is gone."""


class AgentPage(Page):
    """A page of agents."""

    entries: tuple[AgentView, ...]
    """The entries of this page."""


class AgentJob(View):
    """A job on an agent: whose it is, and nothing of what it does."""

    id: str
    """The job's id."""
    tenant: str
    """Its tenant."""
    queue: str
    """Its queue."""
    state: State
    """Its state."""


class AgentDetail(AgentView):
    """An agent and the jobs that it runs."""

    started_at: str
    """When this process of the agent started."""
    state_pool: StatePoolView | None
    """Its connections to its state service; null: the instance has no agent."""
    jobs: tuple[AgentJob, ...]
    """The jobs that it runs, as of its last heartbeat."""


class LogLevelInput(Because):
    """Body of `POST /v1/agents/{agent}/log-level`."""

    level: LogLevel
    """The least level of events that are written: `debug` has more than usual, `warning` less."""
    for_s: Annotated[int, Field(ge=1, le=MAX_LEVEL_S)] = 1800
    """Seconds until the level is `info` again, by itself."""


class AgentAsked(AgentView):
    """An agent that was sent a command, as it was before."""

    note: str
    """What happens next, in a sentence."""
