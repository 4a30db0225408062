"""Routes of queues: statistics and settings."""

from http import HTTPStatus
from typing import Final

from joblane.contract.access import Scope
from joblane.contract.queues import QueuePage, QueueView, SettingsInput, SettingsView
from joblane.contract.route import SWEEPS, Route

_QUEUE = "/v1/queues/{queue}"
_READ_QUEUES: Final[tuple[Scope, ...]] = ("jobs.read", "platform.read")

QUEUE_ROUTES: Final = (
    Route(
        "listQueues",
        "GET",
        "/v1/queues",
        _READ_QUEUES,
        "Show the statistics of all queues",
        QueuePage,
        rate=SWEEPS,
    ),
    Route("getQueue", "GET", _QUEUE, _READ_QUEUES, "Show queue statistics", QueueView),
    Route(
        "getQueueSettings",
        "GET",
        f"{_QUEUE}/settings",
        _READ_QUEUES,
        "Show queue settings",
        SettingsView,
    ),
    Route(
        "setQueueSettings",
        "PUT",
        f"{_QUEUE}/settings",
        ("admin.mutate", "platform.mutate"),
        "Change queue settings",
        SettingsView,
        action="settings",
        body=SettingsInput,
        errors=(HTTPStatus.PRECONDITION_FAILED, HTTPStatus.PRECONDITION_REQUIRED),
    ),
)
