"""Each alarm is in alarm when it should be, and silent when it should not: by its template.

`tests.support.alarm_states` evaluates it over data of its metrics; tests/e2e/test_alarms.py shows
what the local AWS does with the alarms that it takes.
"""

import re
from collections.abc import Mapping
from itertools import product
from typing import Any, NamedTuple

import pytest

from infra.alarms import ALARMS, BURNS, IDS, Burn
from tests.infra.synthesis import Deployment
from tests.infra.test_observability import ALARM, COMPOSITE
from tests.support.alarm_states import Samples, State, composite_state, state

DAY = 24 * 60


def always(*values: float, minutes: int = DAY) -> Samples:
    """These values in each of the last minutes."""
    return {-minute: values for minute in range(minutes)}


def at_minutes(value: float, *minutes: int, others: float | None = None) -> Samples:
    """A value in some minutes, and another or nothing in the others."""
    rest = {} if others is None else always(others)
    return {**rest, **{-minute: [value] for minute in minutes}}


NOTHING: Samples = {}


class Case(NamedTuple):
    """Data of an alarm's metrics, and the state that follows."""

    alarm: str
    what: str
    state: State
    data: Mapping[str, Samples]


def one(alarm: str, what: str, wanted: State, samples: Samples) -> Case:
    return Case(alarm, what, wanted, {"m": samples})


def failures(alarm: str) -> list[Case]:
    """Three of five minutes with one."""
    return [
        one(alarm, "three of five minutes", "ALARM", at_minutes(1, 0, 2, 4, others=0)),
        one(alarm, "two of five minutes", "OK", at_minutes(9, 0, 4, others=0)),
        one(alarm, "long ago", "OK", at_minutes(9, *range(5, 60), others=0)),
        one(alarm, "not called", "OK", NOTHING),
    ]


def unread(alarm: str) -> list[Case]:
    """A message that stays for ten minutes."""
    return [
        one(alarm, "stays", "ALARM", always(1)),
        one(alarm, "is read, fails and comes back", "ALARM", at_minutes(1, 0, 3, 6, 9, others=0)),
        one(alarm, "is read within five minutes", "OK", at_minutes(9, 0, 1, 2, others=0)),
        one(alarm, "no message", "OK", always(0)),
        one(alarm, "an idle queue has no values", "OK", NOTHING),
    ]


def stays(alarm: str, minutes: int) -> list[Case]:
    """Each of some minutes."""
    return [
        one(alarm, "all the time", "ALARM", always(1)),
        one(alarm, "not in one minute", "OK", at_minutes(0, minutes // 2, others=1)),
        one(alarm, "never", "OK", always(0)),
        one(alarm, "no scaler", "OK", NOTHING),
    ]


def silent(alarm: str) -> list[Case]:
    """Not called. CloudWatch looks some periods back for values, so it takes longer than one."""
    return [
        one(alarm, "not called for a quarter of an hour", "ALARM", at_minutes(1, 15, 16)),
        one(alarm, "called each minute", "OK", always(1)),
        one(alarm, "called four minutes ago", "OK", at_minutes(1, 4)),
    ]


def late(alarm: str, limit_ms: float) -> list[Case]:
    return [
        one(alarm, "for five minutes", "ALARM", always(limit_ms + 1)),
        one(alarm, "as much as is allowed", "OK", always(limit_ms)),
        one(alarm, "a peak", "OK", at_minutes(9 * limit_ms, 0, 1, 2, 3, others=0)),
    ]


def errors(alarm: str, period: int) -> list[Case]:
    share = 1.44
    before = at_minutes(50, *range(period, 2 * period))
    return [
        Case(
            alarm, "errors, and no value since", "OK", {"errors": before, "requests": always(100)}
        ),
        Case(alarm, "2 %", "ALARM", {"errors": always(2), "requests": always(100)}),
        Case(alarm, "1 %", "OK", {"errors": always(1), "requests": always(100)}),
        Case(alarm, "the limit", "OK", {"errors": always(share), "requests": always(100)}),
        Case(alarm, "no error was counted", "OK", {"errors": NOTHING, "requests": always(100)}),
        Case(alarm, "nobody asks", "OK", {"errors": NOTHING, "requests": NOTHING}),
    ]


def starts(alarm: str) -> list[Case]:
    free = {"busy": always(3), "total": always(4)}
    full = {"busy": always(4), "total": always(4)}
    slow, soon = always(0.1, 0.1, 0.1, 0.1, 5), always(0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 2, 5)
    return [
        Case(alarm, "a fifth is late", "ALARM", {"soon": slow, **free}),
        Case(alarm, "an eighth is late", "OK", {"soon": soon, **free}),
        Case(alarm, "no slot was free", "OK", {"soon": slow, **full}),
        Case(alarm, "no job started", "OK", {"soon": NOTHING, **free}),
        Case(alarm, "no scaler", "OK", {"soon": slow, "busy": NOTHING, "total": NOTHING}),
    ]


ALL = [
    *failures("function-failed"),
    *silent("requeue-silent"),
    *silent("scaler-silent"),
    *late("projector-late", 300_000),
    *late("sequel-late", 60_000),
    *unread("dead-letters-unread"),
    *unread("alternate-unread"),
    one("schedules-refused", "one due time", "ALARM", at_minutes(1, 0, others=0)),
    one("schedules-refused", "none", "OK", NOTHING),
    one("notify-dead-letters", "one notification", "ALARM", at_minutes(1, 0, others=0)),
    one("notify-dead-letters", "none", "OK", always(0)),
    one("traces-dead-letters", "one message", "ALARM", at_minutes(1, 0, others=0)),
    one("traces-dead-letters", "none", "OK", always(0)),
    one("exports-dead-letters", "one message", "ALARM", at_minutes(1, 0, others=0)),
    one("exports-dead-letters", "none", "OK", always(0)),
    one("api-errors", "five in five minutes", "ALARM", always(1)),
    one("api-errors", "four in five minutes", "OK", at_minutes(1, 0, 1, 3, 4)),
    one("iam-api-errors", "five in five minutes", "ALARM", always(1)),
    one("iam-api-errors", "four in five minutes", "OK", at_minutes(1, 0, 1, 3, 4)),
    one("public-requests", "five a second", "ALARM", always(300)),
    one("public-requests", "a quarter of an hour ago", "OK", at_minutes(9000, *range(15, 99))),
    one("public-requests", "ten minutes", "OK", at_minutes(9000, *range(10), others=10)),
    one("public-requests", "ten people open a page", "OK", at_minutes(650, 0, 5, 10, others=1)),
    one("public-requests", "nobody asks", "OK", NOTHING),
    one("high-lane-waits", "ten minutes", "ALARM", always(1, minutes=10)),
    one("high-lane-waits", "empty in between", "OK", {**always(99), -5: [99, 0, 99]}),
    one("jobs-fail", "two a minute", "ALARM", always(2)),
    one("jobs-fail", "a burst", "OK", at_minutes(9000, 0, 1, 2)),
    one("jobs-fail", "one a minute", "OK", always(1)),
    one("jobs-fail", "a quarter of an hour ago", "OK", at_minutes(99, *range(15, 99))),
    one("jobs-fail", "none", "OK", NOTHING),
    one("recovery-executions-failed", "one", "ALARM", at_minutes(1, 3)),
    one("recovery-executions-failed", "none", "OK", NOTHING),
    *failures("other-function-failed"),
    *failures("function-throttled"),
    one("requeue-slow", "each time", "ALARM", at_minutes(44_001, 1, 6, 11, others=9_000)),
    one("requeue-slow", "two of three", "OK", at_minutes(55_000, 1, 11, others=9_000)),
    *(
        case
        for alarm in ("table-throttled", "index-throttled")
        for case in (
            one(alarm, "two of three periods", "ALARM", at_minutes(1, 0, 11, others=0)),
            one(alarm, "a peak", "OK", at_minutes(1000, 0, 1, 2, others=0)),
            one(alarm, "a peak, and no values before", "OK", at_minutes(1000, 0, 1, 2)),
        )
    ),
    Case("no-agents", "jobs wait", "ALARM", {"backlog": always(5), "alive": always(0)}),
    Case("no-agents", "one is alive", "OK", {"backlog": always(5), "alive": always(1)}),
    Case("no-agents", "nothing waits", "OK", {"backlog": always(0), "alive": always(0)}),
    Case("no-agents", "no scaler", "OK", {"backlog": NOTHING, "alive": NOTHING}),
    *stays("capacity-short", 15),
    *stays("agents-in-trouble", 10),
    *stays("scaler-blind", 5),
    *errors("availability-5m", 5),
    *errors("availability-1h", 60),
    *(case for window in ("5m", "1h") for case in starts(f"late-starts-{window}")),
]

CASES = [case for case in ALL if case.alarm in IDS]
"""Those of alarms that are there; that of the function scaler comes with it."""


def of(deployment: Deployment, kind: str, alarm: str) -> list[dict[str, Any]]:
    """The alarms with this id."""
    found = deployment.properties(kind)
    return [each for each in found if each["AlarmDescription"].endswith(f". Runbook: {alarm}")]


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.alarm}: {case.what}")
def test_an_alarm_is_in_this_state(varied: Deployment, case: Case):
    alarms = of(varied, ALARM, case.alarm)
    assert alarms
    assert {case.state} == {state(alarm, case.data) for alarm in alarms}


def test_each_alarm_is_shown_in_alarm_and_silent():
    for wanted in ("ALARM", "OK"):
        assert {alarm.id for alarm in ALARMS} == {c.alarm for c in CASES if c.state == wanted}


@pytest.mark.parametrize("burn", BURNS, ids=lambda burn: burn.id)
def test_a_burn_needs_both_windows(varied: Deployment, burn: Burn):
    arns = {
        logical_id: resource["Properties"]["AlarmName"]
        for template in varied.templates.values()
        for logical_id, resource in template["Resources"].items()
        if resource["Type"] == ALARM
    }
    composites = of(varied, COMPOSITE, burn.id)
    assert composites
    for composite in composites:
        parts = composite["AlarmRule"]["Fn::Join"][1]
        rule = "".join(p if isinstance(p, str) else arns[p["Fn::GetAtt"][0]] for p in parts)
        short, long = re.findall(r"joblane-[a-z0-9-]+", rule)
        assert (True, True) == tuple(map(str.__contains__, (short, long), burn.windows))
        states: tuple[State, State] = ("ALARM", "OK")
        for first, second in product(states, states):
            wanted = "ALARM" if first == second == "ALARM" else "OK"
            assert wanted == composite_state(rule, {short: first, long: second})
