"""Requeue: every minute, does what has become due, and nothing else.

It reads only rows of the index `wake` whose time has come, shard by shard and page by page,
until all are dealt with or its time is up; the rest is due a minute later. Each job is decided
on its head as it is now, so being run twice at once, or killed anywhere, changes nothing:

    requeue                      table                      lane
    move: wake  ------------->   pending, due
    (killed here)
    next minute  <------------   pending, due
    send  -------------------------------------------->     message
    rearm  ------------------>   pending

Before that it shares out the `cluster_threads` of queues anew where agents have come or gone.
"""

from joblane.startup import once  # first of all: see there

# isort: split
import os
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import cache, partial
from typing import Annotated, Protocol

from aws_lambda_powertools.logging import Logger
from aws_lambda_powertools.metrics import Metrics, MetricUnit
from botocore.exceptions import BotoCoreError, ClientError
from pydantic import BaseModel, ConfigDict, Field, Json

from joblane.aws.agents import AgentStore
from joblane.aws.clients import Clients
from joblane.aws.job_items import WAKE_SHARDS
from joblane.aws.jobs import JobStore, Refused
from joblane.aws.lanes import Lanes
from joblane.aws.operations import Gone, Operations
from joblane.aws.settings import SettingsStore, Sharing
from joblane.head import Head, waits_in_lane
from joblane.lifecycle import Event
from joblane.moves import Due, NotAllowed, due
from joblane.retention import Retention

PAGE = 100
"""Jobs of one page: as many as one BatchGetItem reads."""

AT_ONCE = 8
"""Threads that work on a page; each waits for AWS most of the time."""

RESERVE_S = 5.0
"""Time left when no further page is begun: more than a page takes."""

_TROUBLE = "Failed"


class Settings(BaseModel):
    """The function's environment; a missing variable fails the cold start by its name."""

    model_config = ConfigDict(frozen=True)

    deployment: Annotated[str, Field(alias="JOBLANE_DEPLOYMENT")]
    jobs_table: Annotated[str, Field(alias="JOBLANE_JOBS_TABLE")]
    agents_table: Annotated[str, Field(alias="JOBLANE_AGENTS_TABLE")]
    settings_table: Annotated[str, Field(alias="JOBLANE_SETTINGS_TABLE")]
    queues: Annotated[Json[tuple[str, ...]], Field(alias="JOBLANE_QUEUE_NAMES")]
    queue_url_prefix: Annotated[str, Field(alias="JOBLANE_QUEUE_URL_PREFIX")]
    retention: Annotated[Json[Retention], Field(alias="JOBLANE_RETENTION")]


class Context(Protocol):
    """What this function asks of Lambda's context."""

    def get_remaining_time_in_millis(self) -> int:
        """Milliseconds until Lambda kills this invocation."""


class Requeue:
    """Deals with what is due, over the stores it is handed."""

    def __init__(
        self,
        jobs: JobStore,
        operations: Operations,
        share: Callable[[int], int],
        clock: Callable[[], float],
        logger: Logger,
    ) -> None:
        self._jobs = jobs
        self._operations = operations
        self._share = share
        self._clock = clock
        self._logger = logger

    def run(self, left_s: Callable[[], float]) -> Counter[str]:
        """Deal with everything due; `left_s` says how many seconds are left.

        Returns how many jobs were dealt with in each way, and under `Unread` how many shards
        were not read to their end for want of time. Begins with another shard every minute, so
        that the last is not always the same. Raises what AWS says when it cannot even read.
        """
        done: Counter[str] = Counter()
        try:
            if shared := self._share(int(self._clock() * 1000)):
                done["Shared"] = shared
        except (BotoCoreError, ClientError):
            self._logger.exception("threads are not shared out anew before the next minute")
            done[_TROUBLE] += 1
        first = int(self._clock()) // 60
        for shard in ((first + n) % WAKE_SHARDS for n in range(WAKE_SHARDS)):
            if not self._shard(str(shard), left_s, done):
                done["Unread"] += 1
        return done

    def _shard(self, shard: str, left_s: Callable[[], float], done: Counter[str]) -> bool:
        now_ms = int(self._clock() * 1000)
        after = None
        with ThreadPoolExecutor(AT_ONCE) as pool:
            while left_s() > RESERVE_S:
                heads, after = self._jobs.due_page(shard, now_ms, limit=PAGE, after=after)
                done.update(pool.map(partial(self._one, now_ms), heads))
                if after is None:
                    return True
        return False

    def _one(self, now_ms: int, head: Head) -> str:
        """Deal with one job. Returns what was done, in the words of the metrics."""
        try:
            return self._deal(head, due(head, now_ms), now_ms)
        except (Gone, Refused, NotAllowed):
            return "Outrun"  # by an agent or an operator; what they did is right as it is
        except (BotoCoreError, ClientError):
            self._logger.exception("a due job waits", job_id=head.job_id)
            return _TROUBLE

    def _deal(self, head: Head, what: Due, now_ms: int) -> str:
        match what:
            case Due.NOTHING:
                return "Outrun"
            case Due.EXPIRE:
                wait = "before it started" if head.attempt == 0 else "between two attempts"
                why = f"its deadline {head.spec.deadline} passed {wait}"
                self._operations.move(head, Event.EXPIRE, why, now_ms)
                return "Expired"
            case Due.TELL:
                with suppress(NotAllowed):  # somebody asked before; its agent is told again
                    self._operations.tell(head, f"its deadline {head.spec.deadline} passed")
                self._jobs.rearm(head, now_ms)
                return "Told"
            case Due.WAKE:
                why = f"its run_at has come; {waits_in_lane(head.spec)}"
                head = self._operations.move(head, Event.WAKE, why, now_ms)
                self._operations.send(head, now_ms)
                return "Woken"
            case Due.SEND:
                self._operations.send(head, now_ms)
                return "Sent"
            case Due.REARM:
                self._jobs.rearm(head, now_ms)
                return "Rearmed"


COUNTED = (
    *("Woken", "Sent", "Expired", "Told", "Rearmed", "Outrun", _TROUBLE, "Unread", "Shared"),
)
"""Every metric of this function, in the namespace `Joblane`; each is published every minute."""


def report(deployment: str, done: Counter[str]) -> None:
    """Publish the counts as metrics, in CloudWatch's embedded format."""
    metrics = Metrics(namespace="Joblane", service="requeue")
    metrics.add_dimension("deployment", deployment)
    for name in COUNTED:
        metrics.add_metric(f"Requeue{name}", MetricUnit.Count, done[name])
    metrics.flush_metrics()


def build(settings: Settings, clients: Clients, clock: Callable[[], float]) -> Requeue:
    """Compose the function from its settings, its clients and a clock in Unix seconds."""
    dynamodb = clients.make("dynamodb")
    jobs = JobStore(dynamodb, settings.jobs_table)
    lanes = Lanes(clients.make("sqs"), settings.queue_url_prefix, settings.deployment)
    sharing = Sharing(
        SettingsStore(dynamodb, settings.settings_table),
        AgentStore(dynamodb, settings.agents_table),
    )
    share = partial(sharing.refresh, settings.queues)
    return Requeue(jobs, Operations(jobs, lanes, settings.retention), share, clock, Logger())


@cache
def _application() -> tuple[str, Requeue]:
    settings = Settings.model_validate(dict(os.environ))
    return settings.deployment, once(lambda: build(settings, Clients(), time.time))


def main(_event: object, context: Context) -> dict[str, int]:
    """Answer EventBridge's call of every minute."""
    deployment, requeue = _application()
    done = requeue.run(lambda: context.get_remaining_time_in_millis() / 1000)
    report(deployment, done)
    return dict(done)
