"""Groups that are deleted: with everything of them, in as many requests as it takes."""

import json
from typing import Any

import pytest

from joblane.service.group import delete as group_delete
from joblane.state.lifecycle import State
from tests.support.aws import DESCRIPTOR, OneEach
from tests.support.broadcast import Broadcast
from tests.support.crash_points import Killed
from tests.support.fleet import every_message
from tests.support.requests import Api


def end_broadcast(agents: int = 3, **fields: Any) -> Broadcast:
    at = Broadcast(agents, **fields)
    at.sweep("cancel")
    at.deliver()
    return at


def rows(at: Broadcast) -> list[tuple[Any, ...]]:
    return list(at.memory.tables.rows[DESCRIPTOR.jobs_table])


def test_a_group_is_not_deleted_while_a_member_is_open():
    at = Broadcast(2)
    status, answer = at.api("DELETE", f"/v1/jobs/{at.id}")
    assert (409, True) == (status, "cancel it first" in answer["detail"])
    assert ["pending", "pending"] == at.states()


@pytest.mark.parametrize("size", [1, 900, 300_000])
def test_a_group_is_deleted_with_everything_of_it(size: int):
    at = Broadcast(3, command=["a", *["x" * 100_000] * (size // 100_000), "x" * (size % 100_000)])
    at.end(0)
    at.sweep("cancel")
    at.deliver()
    assert 204 == at.api.raw("DELETE", f"/v1/jobs/{at.id}")["statusCode"]
    assert [] == rows(at)
    assert 404 == at.api("GET", at.path)[0]


def test_a_deletion_that_takes_long_is_finished_by_the_next_request(
    monkeypatch: pytest.MonkeyPatch,
):
    at = end_broadcast(250)
    monkeypatch.setattr(group_delete, "MOST_S", -1.0)
    answer = at.api.raw("DELETE", f"/v1/jobs/{at.id}")
    assert (503, "1") == (answer["statusCode"], answer["headers"]["Retry-After"])
    assert "100 of the group's 250 members are deleted" in json.loads(answer["body"])["detail"]
    assert State.FAILED is at.head.state
    monkeypatch.undo()
    assert 204 == at.api.raw("DELETE", f"/v1/jobs/{at.id}")["statusCode"]
    assert [] == rows(at)


def fragile(at: Broadcast, point: int) -> Api:
    """The function in a process that dies after so many answers of AWS."""
    left = [point]
    session = at.memory.session()

    def answered(**_: Any) -> None:
        left[0] -= 1
        if left[0] <= 0:
            raise Killed

    session.get_component("event_emitter").register("after-call", answered)
    return at.api_by(OneEach(session))


@pytest.mark.parametrize(
    ("ask", "finally_"),
    [
        (("DELETE", "/v1/jobs/{id}"), []),
        (("POST", "/v1/groups/{id}/cancel"), [State.CANCELLED, State.CANCELLED]),
        (("POST", "/v1/groups/{id}/retry"), [State.PENDING, State.PENDING]),
    ],
)
def test_whoever_is_killed_after_any_call_finishes_with_the_next_request(
    ask: tuple[str, str], finally_: list[State]
):
    method, path = ask
    for point in range(1, 60):
        at = Broadcast(2)
        if path.endswith("retry"):
            at.end(0, State.DEAD)
            at.end(1, State.FAILED)
            at.deliver()
        if method == "DELETE":
            at.sweep("cancel")
            at.deliver()
        wanted = path.format(id=at.id)
        try:
            fragile(at, point).raw(method, wanted)
        except Killed:
            at.api.raw(method, wanted)
        else:
            break
        if method == "DELETE":
            assert [] == rows(at), f"after call {point}"
            continue
        assert finally_ == [at.member(n).state for n in range(2)], f"after call {point}"
        if path.endswith("cancel"):
            at.deliver()
            assert State.FAILED is at.head.state, f"after call {point}"
        else:
            assert State.PROCESSING is at.head.state, f"after call {point}"
            due = {n for n in range(2) if at.member(n).wake_at_ms is not None}
            sent = {int(name[-1]) for name, _ in every_message(at.aws, *at.names)}
            assert {0, 1} == due | sent, f"after call {point}"
    assert point > 4
