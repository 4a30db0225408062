"""Calls that concern keys: how many jobs run at once under a key, which ones, and which wait."""

import json
from functools import partial
from typing import Any

from joblane.client import models
from joblane.client.answers import as_object
from joblane.client.calls import (
    LIST_MAX,
    ApiStream,
    Call,
    Item,
    Stream,
    act,
    answers,
    get,
    list_entries,
    segment,
)
from joblane.client.errors import InputError


class KeyCalls:
    """The calls.

    A `scope` is the name of a job type, `command` for keys that submissions write
    out, or `policy.NAME` for those of a policy of joblane.toml.
    """

    @answers(models.KeyPage)
    def keys(
        self, scope: str, *, limit: int = LIST_MAX, cursor: str | None = None
    ) -> Call[dict[str, Any]]:
        """Read one page of the keys that jobs have or wait for, from `cursor`."""
        params = {"limit": min(limit, LIST_MAX), "next": cursor or None}
        return as_object((yield from get(_scope_path(scope), params)), "a list of keys")

    @ApiStream
    def list_keys(self, scope: str, limit: int | None = None) -> Stream[models.KeyView]:
        """Yield the keys that jobs have or wait for, at most `limit`; pages are read as needed."""
        return list_entries(partial(KeyCalls.keys, self, scope), limit, models.KeyView)

    @answers(models.KeyDetail)
    def key(self, scope: str, *segments: str | float) -> Call[dict[str, Any]]:
        """Read a key, the jobs that have its slots and those that wait.

        `client.key("command", "customer", "acme")`. Raises `NotFoundError` for a key that no job
        had for a day.
        """
        return as_object((yield from get(_path(scope, segments))), "a key")

    @ApiStream
    def clear_key(
        self, scope: str, *segments: str | float, reason: str | None = None
    ) -> Stream[models.Cleared]:
        """Cancel all jobs that wait for a key; jobs with a slot continue.

        Yields the answer for each page of jobs; stop iterating to stop. Raises `NotFoundError`.
        """
        path = f"{_path(scope, segments)}/queued"
        left = 1
        while left:
            answer = as_object((yield from act("DELETE", path, reason=reason)), "a cleared key")
            yield Item(models.Cleared(answer))
            left = answer.get("left") or 0


def _scope_path(scope: str) -> str:
    return f"/v1/keys/{segment(scope, 'name of a job type')}"


def _path(scope: str, segments: tuple[str | float, ...]) -> str:
    """Path of a key: the API knows it by its hash. Raises `InputError` for what is no segment."""
    # Imported here: pydantic takes 0.2 s, and most commands need none.
    from joblane.key.segments import key_hash, parse_segments

    try:
        given = parse_segments(json.dumps(segments, allow_nan=False))
    except (TypeError, ValueError) as error:
        raise InputError(f"the segments of the key are wrong: {error}") from error
    return f"{_scope_path(scope)}/{key_hash(given)}"
