"""The routes of keys: list them, show who has and who waits for one, cancel those that wait."""

import re

from aws_lambda_powertools.event_handler.api_gateway import Response

from joblane.contract.keys import Cleared, KeyQuery
from joblane.contract.problems import TryAgain, wrong
from joblane.contract.route_tables.keys import KEY_ROUTES
from joblane.http.answers import listing, page_start, success
from joblane.http.application import Application
from joblane.key.segments import HASH_CHARS, KeyName, parse_segments
from joblane.service.key.clear import KeyClear
from joblane.service.key.keys import KeyReader

BUSY_S = 1
"""When a caller may try again who clears a key that changes all the time."""


def key_routes(app: Application, reader: KeyReader, clear: KeyClear) -> None:
    """Bind the routes of keys."""
    app.add(KEY_ROUTES)

    @app.route("GET /v1/keys/{scope}")
    def page(scope: str) -> Response[str]:
        query = app.parameters(KeyQuery)
        after = page_start(query, _is_hash)
        if query.segments is not None:
            return listing(
                reader.find(app.tenant(), _parse_name(scope, query.segments)), query, None
            )
        found, following = reader.page(app.tenant(), _scope(scope), limit=query.limit, after=after)
        return listing(found, query, following)

    @app.route("GET /v1/keys/{scope}/{key}")
    def show(scope: str, key: str) -> Response[str]:
        return success(reader.detail(app.tenant(), _name(scope, key)))

    @app.route("DELETE /v1/keys/{scope}/{key}/queued")
    def clear_queue(scope: str, key: str) -> Response[str]:
        tenant, at_ms = app.tenant(), app.now_ms()
        name = reader.require(tenant, _name(scope, key)).name
        why = app.describe_request("cancelled with all that wait for the key", at_ms)
        try:
            done = clear.clear(tenant, name, why, at_ms)
        except TryAgain:
            raise TryAgain(
                "the key is being changed by many requests; some jobs may be cancelled, try again",
                retry_after_s=BUSY_S,
            ) from None
        return success(Cleared(cancelled=done.cancelled, left=done.left))


def _is_hash(text: str) -> bool:
    return re.fullmatch(f"[0-9a-f]{{{HASH_CHARS}}}", text) is not None


def _scope(text: str) -> str:
    """Raises Problem 400 for what names no job type and no policy."""
    if re.fullmatch(r"[a-z][a-z0-9_.-]{0,79}", text) is None:
        raise wrong("scope", "must be the name of a job type, command, or policy.NAME")
    return text


def _name(scope: str, key: str) -> KeyName:
    """Raises Problem 400 for what is no id of a key."""
    if not _is_hash(key):
        problem = f"must be {HASH_CHARS} hexadecimal digits, the id of a key; to find a key by its"
        raise wrong("key", f"{problem} segments, list its type with ?segments=")
    return KeyName(_scope(scope), key)


def _parse_name(scope: str, text: str) -> KeyName:
    """Raises Problem 400 for segments that no key can have."""
    try:
        return KeyName.of(_scope(scope), parse_segments(text))
    except ValueError as error:
        raise wrong("segments", str(error)) from None
