"""Composes the function `sequel`: what follows the end of a job."""

import json
import random
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from functools import cache
from typing import TYPE_CHECKING, Any

from aws_lambda_powertools.logging import Logger
from pydantic import Json

from joblane.aws.clients import Clients
from joblane.aws.environment import Environment
from joblane.aws.job.groups import GroupStore
from joblane.aws.key.keys import KeyStore
from joblane.aws.metrics import Metrics
from joblane.aws.queue.lanes import Lanes
from joblane.deployment.names import (
    alternate_name,
    notify_name,
    sequel_mapping_parameter_name,
)
from joblane.job.head import Head
from joblane.service.group.expansion import GO_ON_S, Expansion
from joblane.service.group.members import Members
from joblane.service.group.settlement import GroupSettlement
from joblane.service.job.operations import Operations
from joblane.service.job.sequel import Sequel
from joblane.service.key.release import Handover, KeyRelease
from joblane.service.put_aside import PutAside
from joblane.state.retention import Retention

if TYPE_CHECKING:
    from joblane.service.notify.notifications import Notifications


class Settings(Environment):
    """The function's environment."""

    jobs_table: str
    keys_table: str
    notifies: Json[bool]
    """Whether a tenant may ask for notifications, or has a feed."""
    api_url: str = ""
    """URL of the API, if `notifies`."""
    retention: Json[Retention]
    metrics: Json[bool] = False
    """Whether the deployment has custom metrics."""


def build(
    settings: Settings,
    clients: Clients,
    clock: Callable[[], float],
    pool: Callable[[int], Executor] = ThreadPoolExecutor,
) -> Sequel:
    """Compose the function from its settings, its clients and a clock in Unix seconds."""
    dynamodb, sqs = clients.make("dynamodb"), clients.make("sqs")
    alternate = settings.queue_url_prefix + alternate_name(settings.deployment)

    def put_aside(what: Mapping[str, Any]) -> None:
        sqs.send_message(QueueUrl=alternate, MessageBody=json.dumps(what))

    log = Logger()
    jobs = GroupStore(dynamodb, settings.jobs_table)
    lanes = Lanes(sqs, settings.queue_url_prefix, settings.deployment)
    keys = KeyRelease(KeyStore(dynamodb, settings.keys_table), jobs, lanes, log, clock)
    members = Members(jobs, lanes, settings.retention, pool=pool)
    expansion = Expansion(jobs, members, settings.retention, lambda: int(clock() * 1000))

    def go_on(group: Head) -> None:
        end = clock() + GO_ON_S
        expansion.go_on(group, lambda: end - clock())

    groups = GroupSettlement(
        jobs,
        members.place,
        Operations(jobs, lanes, settings.retention).send,
        settings.retention,
        random.Random(),
        log,
        clock,
        go_on,
    )

    @cache
    def notifications() -> "Notifications":
        # few jobs tell anything, and the modules would be part of every cold start
        from joblane.aws.notify.queue import NotifyQueue
        from joblane.aws.parameters import read_written_at
        from joblane.service.notify.notifications import Notifications

        ssm = clients.make("ssm")
        mapping = sequel_mapping_parameter_name(settings.deployment)
        queue = NotifyQueue(sqs, settings.queue_url_prefix + notify_name(settings.deployment))
        return Notifications(
            jobs,
            queue,
            settings.deployment,
            settings.api_url or None,
            clock,
            lambda: read_written_at(ssm, mapping),
        )

    metrics = Metrics(settings.metrics)

    def measure(handovers: Sequence[Handover]) -> None:
        found: defaultdict[tuple[str, int], list[float]] = defaultdict(list)
        for each in handovers:
            found[each.queue, each.ended_ms // 60_000].append(each.took_ms)
        for (queue, minute), took_ms in found.items():
            names = {"Deployment": settings.deployment, "Queue": queue}
            metrics.emit(names, {"HandoverMs": took_ms}, at_ms=minute * 60_000)

    return Sequel(
        keys,
        groups,
        notifications=notifications if settings.notifies else None,
        aside=PutAside("sequel", put_aside, log),
        log=log,
        measure=measure,
        pool=pool,
    )
