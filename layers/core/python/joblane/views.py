"""What the API answers beside a job: one model a route or kind of route.

docs/openapi.json is written from these models. They are built when they are first used, so that
a cold start pays for none that it does not use.
"""

from typing import Literal

from pydantic import BaseModel, ConfigDict

from joblane.activity import Activity
from joblane.job import Job, LogRecord
from joblane.lifecycle import State
from joblane.names import Lane
from joblane.problems import FieldProblem
from joblane.queues import SettingsView


class View(BaseModel):
    """Part of an answer."""

    model_config = ConfigDict(frozen=True, defer_build=True)


class Health(View):
    """Whether the API is up."""

    status: Literal["ok"]
    version: str


class JobPage(View):
    """A page of jobs, newest first."""

    entries: tuple[Job, ...]
    limit: int
    next: str | None
    """Where to go on; null at the end. A page may hold less than `limit` and have one."""


class LogPage(View):
    """A page of a job's output."""

    entries: tuple[LogRecord, ...]
    limit: int
    next: str
    """Where to go on, always: more may come."""
    state: State
    """The job's state when the page was made."""
    complete: bool
    """True when nothing will ever come after this page."""


class Accepted(View):
    """Entry of a batch that became a job."""

    status: Literal[202]
    job: Job


class NotAccepted(View):
    """Entry of a batch that did not become a job."""

    status: Literal[400, 409, 413, 503]
    detail: str
    errors: tuple[FieldProblem, ...]


class BatchAnswer(View):
    """What became of each entry of a batch, in the order given."""

    entries: tuple[Accepted | NotAccepted, ...]


class AgentView(View):
    """An agent, as of its last heartbeat."""

    name: str
    alive: bool
    """Whether it still holds the lease on its jobs."""
    last_seen_at: str
    threads: int
    running: int
    queues: tuple[str, ...]
    isolation: str
    version: str
    trouble: str | None = None
    """Why it takes no work, or what of it waits to be reported; null while all is well."""


class AgentPage(View):
    """A page of agents."""

    entries: tuple[AgentView, ...]
    limit: int
    next: str | None


class AgentDetail(AgentView):
    """An agent and the jobs that it runs."""

    started_at: str
    """When this process of the agent started."""
    jobs: tuple[Job, ...]
    """Those of the caller's tenant, as of its last heartbeat; `running` counts all."""


class Drained(AgentView):
    """An agent that was told to leave."""

    note: str
    """What happens now, in a sentence."""


class LaneView(View):
    """One lane: how many messages SQS counts in it, and in its dead-letter queue."""

    lane: Lane
    visible: int
    """Jobs that wait for an agent."""
    in_flight: int
    """Jobs that run, or wait for another attempt."""
    delayed: int
    """Jobs whose `run_at` comes within 15 minutes."""
    dead_letters: int
    oldest_s: int | None
    """Age of the oldest message that is not deleted, of a job that waits or runs; null when
    CloudWatch has no figure for it."""
    oldest_at: str | None
    """When SQS measured that: it reports once a minute."""


class QueueView(View):
    """A queue as the API answers it; its lanes in the order in which agents serve them."""

    name: str
    lanes: tuple[LaneView, ...]
    settings: SettingsView
    activity: tuple[Activity, ...]
    """What happened to the caller's own jobs, over 1, 5 and 60 minutes."""


class QueuePage(View):
    """The queues that the caller's tenant may use, all of them."""

    entries: tuple[QueueView, ...]
    limit: int
    next: None


class ConditionView(View):
    """A condition that jobs of the caller's tenant wait for."""

    name: str
    kind: str
    since_at: str
    """When the tenant's job that waits longest was blocked."""
    waiting: int
    """How many of the tenant's jobs wait, among the hundred that have waited longest."""
    more: bool
    """Whether more jobs wait than those hundred, so that `waiting` is the least it can be."""
    reason: str
    """What the last test saw."""
    tests: int
    """How often it was tested since a job was last let go for the first time."""
    next_test_at: str | None
    """When it is tested next; absent until its execution has begun."""
    policy: str
    gives_up_at: str
    """When the job that waits longest fails, if the condition still blocks then."""


class ConditionPage(View):
    """A page of conditions."""

    entries: tuple[ConditionView, ...]
    limit: int
    next: str | None


class AppView(View):
    """What is declared of an application."""

    name: str
    state: Literal["up", "down"]
    reason: str
    until_at: str | None
    """When a declaration that it is down ends by itself."""


class LeftOut(View):
    """A job to which nothing was done."""

    id: str
    detail: str
    """Why."""


class _Work(View):
    examined: int
    """How many jobs were looked at."""
    refused: tuple[LeftOut, ...]
    next: str | None
    """Where to go on; null at the end."""


class Requeued(_Work):
    """What a page of a requeue came to."""

    requeued: int


class Restarted(_Work):
    """What a page of a restart came to."""

    restarted: int


class Contract(View):
    """An OpenAPI document: this one."""

    model_config = ConfigDict(frozen=True, defer_build=True, extra="allow")

    openapi: str


class ProblemDocument(View):
    """An error as RFC 9457 has it."""

    type: Literal["about:blank"]
    title: str
    status: int
    detail: str
    """A sentence for whoever asked."""
    instance: str
    """Id of the request, as in the header `X-Request-Id` and in the logs."""
    errors: tuple[FieldProblem, ...] = ()
    """Each field or parameter that was wrong."""


class GatewayError(View):
    """An error of API Gateway itself, which answers before Joblane is asked."""

    message: str | None
