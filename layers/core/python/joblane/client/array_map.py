"""`map` of a handler over a list: one array in place of a job for each value.

Where an array cannot be (`plan_array`), or is refused, `map` submits a job for each value.
"""

import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from joblane.client.answers import GroupPage, JobJson, group_page, job_json
from joblane.client.calls import LIST_MAX, Call, act, encode_body, get
from joblane.client.errors import InputError, RequestError
from joblane.client.fields import encode_fields
from joblane.client.files.calls import with_uploads
from joblane.client.follow import FollowPolicy, News, RepeatedCall, Runtime
from joblane.client.group_follow import GroupPoll
from joblane.client.groups import group_path
from joblane.client.log_calls import job_path
from joblane.client.tracing import trace_headers
from joblane.handler.job_type import JobType

MOST_VALUES = 10_000
"""Most jobs of an array."""

MOST_BYTES = 262_144
"""Longest values of an array as JSON, and its longest value by far."""

AT_ONCE = 1000
"""Largest `max_concurrency`."""

NOT_IN_ARRAYS = ("array", "concurrency", "target")
"""Fields with which `map` submits jobs one by one."""


@dataclass(frozen=True, slots=True)
class ArrayPlan:
    """An array in place of the jobs of a `map`."""

    fields: Mapping[str, Any]
    """Of its submission."""
    indices: tuple[int, ...]
    """Of each of its jobs the number of its value."""
    refused: Mapping[int, InputError]
    """By the numbers of values that the handler does not take."""


def plan_array(
    command: object, values: object, fields: Mapping[str, Any], window: int
) -> ArrayPlan | None:
    """The array of a handler's values; None if it takes jobs one by one."""
    if not isinstance(command, JobType) or not isinstance(values, list | tuple):
        return None
    named = any(fields.get(name) is not None for name in NOT_IN_ARRAYS)
    if named or not 1 < len(values) <= MOST_VALUES:
        return None
    params, indices, refused = [], [], dict[int, InputError]()
    for index, value in enumerate(values):
        try:
            params.append(command.dump_params(value))
            indices.append(index)
        except (TypeError, ValueError) as error:
            refused[index] = InputError(str(error))
    array = {"values": params}
    if not params or len(encode_body(array)) > MOST_BYTES:
        return None
    made = {**fields, "type": command.name, "array": array}
    if len(params) > window:
        made["max_concurrency"] = min(window, AT_ONCE)
    return ArrayPlan(made, tuple(indices), refused)


def submit_array(plan: ArrayPlan, policy: FollowPolicy, runtime: Runtime) -> Call[JobJson | None]:
    """Submit an array until it is answered, once; None if it is refused."""
    given = yield from with_uploads(encode_fields(plan.fields))
    key = uuid.uuid4().hex

    def send() -> Call[JobJson]:
        answer = yield from act(
            "POST", "/v1/jobs", given, idempotency_key=key, headers=trace_headers()
        )
        return job_json(answer)

    poll = RepeatedCall(send, lambda _: News(changed=True, done=True), policy, runtime)
    try:
        return (yield from poll.answer())
    except RequestError:  # such as values for another version of the type
        return None


def poll_array(group_id: str, policy: FollowPolicy, runtime: Runtime) -> GroupPoll:
    """What reads the members of an array as they end."""

    def read(cursor: str | None) -> Call[GroupPage]:
        params = {"limit": LIST_MAX, "next": cursor, "counts": "false"}
        return group_page((yield from get(group_path(group_id), params, retry=False)))

    def head() -> Call[JobJson]:
        return job_json((yield from get(job_path(group_id), retry=False)))

    return GroupPoll(read, head, policy, runtime)
