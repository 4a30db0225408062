"""Answers of the API: pages of jobs and logs, batches, agents, bulk operations, errors.

contract/openapi.json is written from these models.
"""

from collections.abc import Mapping
from typing import Literal

from pydantic import ConfigDict

from joblane.contract.job import Job
from joblane.contract.models import Page, View
from joblane.contract.problems import FieldProblem
from joblane.job.output import LogRecord
from joblane.state.lease import AgentState
from joblane.state.lifecycle import State
from joblane.target.facts import FactValue

KeyRefusal = Literal["active-limit", "queue-depth"]


class Health(View):
    """Whether the API is up."""

    status: Literal["ok"]
    """`ok`."""
    version: str
    """Version of the deployment."""


class Login(View):
    """The answer of `GET /v1/login`."""

    openid_configuration: str
    """URL of the issuer's discovery document, which names its endpoints."""
    client_id: str | None
    """The public client that people log in with; None if there is none."""
    scopes: tuple[str, ...]
    """Scopes to request; a role may grant fewer."""
    audience: str | None
    """Value for issuers that require an `audience`."""


class JobPage(Page):
    """A page of jobs, newest first."""

    entries: tuple[Job, ...]
    """The entries of this page."""


class LogPage(View):
    """A page of a job's output."""

    entries: tuple[LogRecord, ...]
    """Records of output, in order."""
    limit: int
    """Maximum number of entries of this page."""
    next: str
    """Cursor of the next page; always set, because more may come."""
    state: State
    """The job's state when the page was made."""
    more: bool
    """Whether more can be read at once, also after a page without entries."""
    complete: bool
    """Whether the output ends with this page."""


class DiskView(View):
    """What a disk of an agent's host has for jobs, in MiB."""

    free_mb: int
    """For more jobs; what jobs on the agent may still write is not free. Below 0 while one waits
    for what it has reserved."""
    most_mb: int
    """For one job, if all jobs of the agent ended."""


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
    jobs: tuple[AgentJob, ...]
    """The jobs that it runs, as of its last heartbeat."""


class AgentAsked(AgentView):
    """An agent that was sent a command, as it was before."""

    note: str
    """What happens next, in a sentence."""


class LeftOut(View):
    """A job that was not changed."""

    id: str
    """The job's id."""
    detail: str
    """Why."""


class Sweep(View):
    """What one request of a bulk operation did."""

    examined: int
    """Number of jobs that were examined."""
    refused: tuple[LeftOut, ...]
    """Jobs that were left out, with the reason."""
    next: str | None
    """Cursor of the next page; null at the end."""


class Requeued(Sweep):
    """Result of one page of a requeue."""

    requeued: int
    """Number of messages sent."""


class Restarted(Sweep):
    """Result of one page of a restart."""

    restarted: int
    """Number of jobs started again."""


class JobsCancelled(Sweep):
    """What one request of cancelling a group, or the jobs that filters select, did."""

    cancelled: int
    """Jobs that were cancelled, or whose agents were asked to stop them."""


class JobsRetried(Sweep):
    """What one request of retrying a group, or the jobs that filters select, did."""

    retried: int
    """Jobs that were retried. Those of a group with `max_concurrency` start as there is room."""


class JobResubmitted(View):
    """A job that was submitted again."""

    id: str
    """The job's id."""
    resubmitted_as: str
    """Id of the new job."""


class JobsResubmitted(Sweep):
    """What one request of resubmitting the jobs that filters select did."""

    resubmitted: int
    """Number of new jobs."""
    already: int
    """Jobs that were left out because they have been resubmitted before."""
    jobs: tuple[JobResubmitted, ...]
    """Those that were resubmitted, with their new ids."""


class DeadReplayed(Sweep):
    """What one request of replaying the dead jobs that filters select did."""

    replayed: int
    """Jobs that start again."""


class DeadDismissed(Sweep):
    """What one request of dismissing the dead jobs that filters select did."""

    dismissed: int
    """Jobs that were dismissed."""


class JobsDeleted(Sweep):
    """What one request of deleting the jobs that filters select did."""

    deleted: int
    """Jobs that were deleted; a group and its jobs count as one."""


class Contract(View):
    """An OpenAPI document: this one."""

    model_config = ConfigDict(frozen=True, defer_build=True, extra="allow")

    openapi: str
    """Version of OpenAPI."""


class ProblemDocument(View):
    """An error in the form of RFC 9457."""

    type: Literal["about:blank"]
    """`about:blank`."""
    title: str
    """Name of the status."""
    status: int
    """HTTP status."""
    detail: str
    """What went wrong, in a sentence."""
    instance: str
    """Id of the request, as in the header `X-Request-Id` and in the logs."""
    errors: tuple[FieldProblem, ...] = ()
    """Each wrong field or parameter."""
    limit: str | int | None = None
    """Of 429: the key of joblane.toml whose limit the tenant has reached. Of 409 for a key that is
    full: its maximum, `max_active + max_queued`."""
    allowed: int | None = None
    """Of 429: the limit."""
    current: int | None = None
    """Of 429: the tenant's figure, some seconds old."""
    until: str | None = None
    """Of 429: when to try again, as in the header `Retry-After`."""
    reason: KeyRefusal | None = None
    """Of 409 for a key that is full: `active-limit` if one of its jobs has started, `queue-depth`
    if none has."""
    active: int | None = None
    """Of 409 for a key that is full: its jobs with a slot."""
    queued: int | None = None
    """Of 409 for a key that is full: its jobs that wait for one."""
    key: tuple[str | int | float, ...] | None = None
    """Of 409 for a key that is full: its segments."""


class GatewayError(View):
    """An error of API Gateway, before the request reaches Joblane."""

    message: str | None
    """What is wrong."""
