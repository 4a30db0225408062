"""The routes of queues: how much waits, what happens, and what operators set while it does.

The lengths of lanes and the settings are the queue's own: whoever may use a shared queue sees all
that waits in it, and may set it. What happened to jobs is counted by tenant, and a caller is told
only of its own.
"""

import re
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus

from aws_lambda_powertools.event_handler.api_gateway import Response
from aws_lambda_powertools.logging import Logger
from botocore.exceptions import BotoCoreError, ClientError

from joblane.activity import activity, oldest_minute
from joblane.answers import success
from joblane.aws.activity import CounterStore
from joblane.aws.agents import AgentStore
from joblane.aws.clients import Clients
from joblane.aws.lanes import LaneQueue
from joblane.aws.oldest import Age, Oldest
from joblane.aws.settings import Outrun, SettingsStore, Sharing
from joblane.names import LANES, Lane, dead_letter_name, lane_name
from joblane.problems import Problem, wrong
from joblane.queues import QueueSettings, SettingsInput, SettingsView, settings_view
from joblane.times import rfc3339
from joblane.views import LaneView, QueuePage, QueueView
from joblane.web import Application

MAX_SETTINGS_BYTES = 4096
"""Largest body of settings: they are three short fields."""

AT_ONCE = 8
"""Threads that measure: each waits for AWS most of the time."""


@dataclass(frozen=True, slots=True)
class Queues:
    """The queues of a deployment, as joblane.toml declares them."""

    tenants: Mapping[str, tuple[str, ...]]
    """Who may use each; none listed means everybody."""
    threads: Mapping[str, int]
    url_prefix: str
    deployment: str

    def open_to(self, tenant: str) -> list[str]:
        """The queues that a tenant may use."""
        return [queue for queue, only in self.tenants.items() if not only or tenant in only]


@dataclass(frozen=True, slots=True)
class Tables:
    """Names of the tables that a board reads."""

    settings: str
    agents: str
    counters: str


class Board:
    """Measures queues, and sets them."""

    def __init__(
        self,
        clients: Clients,
        queues: Queues,
        tables: Tables,
        clock: Callable[[], float],
        logger: Logger,
    ) -> None:
        dynamodb = clients.make("dynamodb")
        self._queues = queues
        self._clock = clock
        self._logger = logger
        self._sqs = clients.make("sqs")
        self._settings = SettingsStore(dynamodb, tables.settings)
        self._sharing = Sharing(self._settings, AgentStore(dynamodb, tables.agents))
        self._counters = CounterStore(dynamodb, tables.counters)
        names = [lane_name(queues.deployment, q, lane) for q in queues.tenants for lane in LANES]
        self._oldest = Oldest(lambda: clients.make("cloudwatch"), names, clock)

    def all(self, tenant: str) -> list[QueueView]:
        """Measure the queues that a tenant may use: seven requests a queue, and two for all."""
        return self._measure(tenant, self._queues.open_to(tenant))

    def one(self, tenant: str, queue: str) -> QueueView:
        """Measure one queue. Raises Problem 404."""
        self._require(tenant, queue)
        return self._measure(tenant, [queue])[0]

    def settings(self, tenant: str, queue: str) -> SettingsView:
        """Read a queue's settings. Raises Problem 404."""
        self._require(tenant, queue)
        return settings_view(self._settings.get(queue), self._queues.threads[queue], tenant)

    def set(
        self, tenant: str, who: str, queue: str, wanted: SettingsInput, if_match: str | None
    ) -> SettingsView:
        """Replace a queue's settings, if they are the ones that the caller has seen.

        `cluster_threads` are shared out at once, so that no agent goes by an old limit for
        longer than it takes to read the new one. Raises Problem 400, 404, 412 and 428.
        """
        self._require(tenant, queue)
        seen = _version(if_match)
        over = self._settings.get(queue).version if seen is None else seen
        now_ms = self._now_ms()
        after = QueueSettings(
            run_jobs=wanted.run_jobs,
            threads=wanted.threads,
            cluster_threads=wanted.cluster_threads,
            version=over + 1,
            changed_ms=now_ms,
            changed_by=who,
            tenant=tenant,
            shares=self._sharing.among_all(queue, wanted.cluster_threads, now_ms),
        )
        try:
            self._settings.put(queue, after, over=over)
        except Outrun:
            raise Problem(
                HTTPStatus.PRECONDITION_FAILED,
                "somebody else has set this queue since; read its settings and decide again",
            ) from None
        return settings_view(after, self._queues.threads[queue], tenant)

    def _require(self, tenant: str, queue: str) -> None:
        if queue not in self._queues.open_to(tenant):
            raise Problem(HTTPStatus.NOT_FOUND, "there is no such queue")

    def _measure(self, tenant: str, queues: list[str]) -> list[QueueView]:
        now_ms = self._now_ms()
        settings = self._settings.get_all(queues)
        ages = self._ages()
        with ThreadPoolExecutor(AT_ONCE) as pool:
            counters = pool.map(
                lambda queue: self._counters.read(tenant, queue, oldest_minute(now_ms)), queues
            )
            places = [(queue, lane) for queue in queues for lane in LANES]
            measured = pool.map(partial(self._lane, ages), *zip(*places, strict=True))
            lanes = dict(zip(places, measured, strict=True))
            return [
                QueueView(
                    name=queue,
                    lanes=tuple(lanes[queue, lane] for lane in LANES),
                    settings=settings_view(settings[queue], self._queues.threads[queue], tenant),
                    activity=tuple(activity(minutes, now_ms)),
                )
                for queue, minutes in zip(queues, counters, strict=True)
            ]

    def _ages(self) -> Mapping[str, Age]:
        try:
            return self._oldest.ages()
        except (ClientError, BotoCoreError):
            self._logger.exception("ages of messages are unknown")
            return {}

    def _lane(self, ages: Mapping[str, Age], queue: str, lane: Lane) -> LaneView:
        prefix, deployment = self._queues.url_prefix, self._queues.deployment
        name = lane_name(deployment, queue, lane)
        held = LaneQueue(self._sqs, prefix + name).lengths()
        dead = LaneQueue(self._sqs, prefix + dead_letter_name(deployment, queue, lane)).lengths()
        age = ages.get(name)
        return LaneView(
            lane=lane,
            visible=held.visible,
            in_flight=held.in_flight,
            delayed=held.delayed,
            dead_letters=dead.visible,
            oldest_s=None if age is None else age.seconds,
            oldest_at=None if age is None else rfc3339(age.at_ms),
        )

    def _now_ms(self) -> int:
        return int(self._clock() * 1000)


def _version(if_match: str | None) -> int | None:
    """The version that an `If-Match` names; None for `*`, any. Raises Problem 400 and 428."""
    if if_match is None:
        raise Problem(
            HTTPStatus.PRECONDITION_REQUIRED,
            "the header If-Match is required: the ETag of the settings that you have seen, or *",
        )
    if if_match == "*":
        return None
    if not re.fullmatch(r'"[0-9]{1,15}"', if_match):
        raise wrong("If-Match", 'must be an ETag of these settings, such as "3", or *')
    return int(if_match.strip('"'))


def queue_routes(app: Application, board: Board) -> None:
    """Bind the routes of queues that neither move nor count jobs one by one."""

    def tagged(settings: SettingsView) -> Response[str]:
        return success(settings, headers={"ETag": f'"{settings.version}"'})

    @app.route("GET /v1/queues")
    def queues() -> Response[str]:
        found = tuple(board.all(app.tenant()))
        return success(QueuePage(entries=found, limit=len(found), next=None))

    @app.route("GET /v1/queues/{queue}")
    def one_queue(queue: str) -> Response[str]:
        return success(board.one(app.tenant(), queue))

    @app.route("GET /v1/queues/{queue}/settings")
    def settings(queue: str) -> Response[str]:
        return tagged(board.settings(app.tenant(), queue))

    @app.route("PUT /v1/queues/{queue}/settings")
    def set_settings(queue: str) -> Response[str]:
        who = str(app.principal())
        wanted = app.read(SettingsInput, MAX_SETTINGS_BYTES)
        return tagged(board.set(app.tenant(), who, queue, wanted, app.header("if-match")))
