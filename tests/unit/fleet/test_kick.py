"""When projector has the fleets sized at once."""

import json
import logging
from typing import Any

import pytest

from joblane.aws.errors import AwsSilent
from joblane.aws.functions import StartedFunction
from joblane.queue.activity import Change
from joblane.service.fleet.kick import EVERY_S, LONGEST_S, Kick, more_wait
from joblane.state.lifecycle import State
from joblane.testing.clock import Clock


def change(before: State | None, after: State | None, queue: str = "default") -> Change:
    return Change("acme", queue, None, 1, 1, 1, before=before, after=after)


CAME = change(None, State.PENDING)
TAKEN = change(State.PENDING, State.ACTIVE)


@pytest.mark.parametrize(
    ("changes", "kicks"),
    [
        ([], False),
        ([CAME], True),
        ([CAME, TAKEN], False),
        ([TAKEN, CAME], False),
        ([CAME, CAME, TAKEN], True),
        ([TAKEN, TAKEN], False),
        ([change(None, State.SCHEDULED)], False),
        ([change(State.SCHEDULED, State.PENDING)], True),
        ([change(State.BLOCKED, State.PENDING)], True),
        ([change(State.PENDING, State.CANCELLED)], False),
        ([change(State.PENDING, None)], False),
        ([CAME, change(State.PENDING, State.ACTIVE, "bulk")], True),
        ([change(State.ACTIVE, State.COMPLETED)], False),
        ([*[CAME] * 10, *[TAKEN] * 9], True),
        ([*[CAME] * 11, *[TAKEN] * 10], False),
        ([*[change(State.ACTIVE, State.PENDING)] * 3, TAKEN], True),
    ],
)
def test_more_wait_if_more_came_than_were_taken(changes: list[Change], *, kicks: bool):
    assert kicks is more_wait(changes)


def test_the_pause_doubles_while_jobs_go_on_to_come_faster_than_they_are_taken():
    clock, kicks = Clock(1000.0), []
    kick = Kick(lambda: kicks.append(clock.now), clock, logging.getLogger())  # type: ignore[arg-type]
    for _ in range(60):
        kick.after([CAME])
        clock.now += EVERY_S
    assert [0, 5, 15, 35, 75, 135, 195, 255] == [when - 1000 for when in kicks]


def test_the_pause_is_short_again_after_a_calm_time():
    clock, kicks = Clock(1000.0), []
    kick = Kick(lambda: kicks.append(clock.now), clock, logging.getLogger())  # type: ignore[arg-type]
    for _ in range(10):
        kick.after([CAME])
        clock.now += EVERY_S
    clock.now += 2 * LONGEST_S
    kicks.clear()
    for _ in range(3):
        kick.after([CAME])
        clock.now += EVERY_S
    assert [0, 5] == [when - kicks[0] for when in kicks]


def test_nothing_is_noted_for_a_batch_that_needs_no_kick():
    clock, kicks = Clock(1000.0), []
    kick = Kick(lambda: kicks.append(1), clock, logging.getLogger())  # type: ignore[arg-type]
    kick.after([TAKEN])
    kick.after([CAME])
    assert [1] == kicks


def test_a_failed_kick_is_logged_and_fails_nothing(caplog: pytest.LogCaptureFixture):
    def start() -> None:
        raise AwsSilent(error="http://lambda")

    Kick(start, Clock(1000.0), logging.getLogger()).after([CAME])  # type: ignore[arg-type]
    assert "called every minute anyway" in caplog.text


def test_the_call_is_asynchronous():
    asked: list[dict[str, Any]] = []

    class Client:
        def invoke(self, **request: Any) -> None:
            asked.append(request)

    client: Any = Client()

    StartedFunction(lambda: client, "joblane-scaler")({"kicked": True})
    (request,) = asked
    assert ("joblane-scaler", "Event", {"kicked": True}) == (
        request["FunctionName"],
        request["InvocationType"],
        json.loads(request["Payload"]),
    )
