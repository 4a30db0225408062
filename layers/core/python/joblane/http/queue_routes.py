"""The routes of queues: statistics and settings."""

import re

from aws_lambda_powertools.event_handler.api_gateway import Response

from joblane.contract.problems import VersionMissing, wrong
from joblane.contract.queues import QueuePage, SettingsInput, SettingsView
from joblane.contract.route_tables.queues import QUEUE_ROUTES
from joblane.http.answers import success
from joblane.http.application import Application
from joblane.service.queue.queues import Queues


def queue_routes(app: Application, queues: Queues) -> None:
    """Bind the routes that show queues, and read and change their settings."""
    app.add(QUEUE_ROUTES)

    @app.route("GET /v1/queues")
    def all_queues() -> Response[str]:
        found = queues.show_all(app.tenant())
        return success(QueuePage(entries=found, limit=len(found), next=None))

    @app.route("GET /v1/queues/{queue}")
    def one(queue: str) -> Response[str]:
        return success(queues.one(app.tenant(), queue))

    @app.route("GET /v1/queues/{queue}/settings")
    def settings(queue: str) -> Response[str]:
        return _tag(queues.settings(app.tenant(), queue))

    @app.route("PUT /v1/queues/{queue}/settings")
    def change_settings(queue: str) -> Response[str]:
        by = app.principal()
        wanted = app.read(SettingsInput)
        queues.require_change(by.tenant, queue)  # 403 and 404 come before the version's problems
        version = _version(app.header("if-match"))
        return _tag(queues.change_settings(by.tenant, str(by), queue, wanted, version))


def _tag(settings: SettingsView) -> Response[str]:
    return success(settings, headers={"ETag": f'"{settings.version}"'})


def _version(if_match: str | None) -> int | None:
    """The version that an `If-Match` names; None for `*`, any. Raises Problem 400 and 428."""
    if if_match is None:
        raise VersionMissing(
            "the header If-Match is required: the ETag of the settings that you have read, or *",
        )
    if if_match == "*":
        return None
    if not re.fullmatch(r'"[0-9]{1,15}"', if_match):
        raise wrong("If-Match", 'must be an ETag of these settings, such as "3", or *')
    return int(if_match.strip('"'))
