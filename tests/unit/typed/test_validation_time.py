"""The time that a tenant's params take in the function of all tenants is bounded."""

import time
from typing import Any

import pytest

from functions.submission.handler import Settings, build
from joblane.contract.problems import Problem
from joblane.http.json_schema import JsonSchema
from joblane.http.statuses import status_of
from joblane.service.typed.validation_time import MOST_S, SLOW_S, WINDOW_S, ValidationTime
from joblane.testing.clock import Clock
from tests.support.aws import Cloud, configure
from tests.support.requests import Api
from tests.support.types import store_type


def validate(bound: ValidationTime, clock: Clock, seconds: float, tenant: str = "acme") -> None:
    with bound.measured(tenant):
        clock.now += seconds


def test_a_tenant_whose_validations_are_slow_is_refused_until_the_minute_is_over():
    clock = Clock(10 * WINDOW_S)
    bound = ValidationTime(clock)
    for _ in range(2):
        validate(bound, clock, MOST_S / 2)
    with pytest.raises(Problem, match="smaller params or a type whose schema is simpler") as slow:
        validate(bound, clock, 0)
    assert 429 == status_of(slow.value)
    assert WINDOW_S - MOST_S + 1 == slow.value.retry_after_s
    validate(bound, clock, 1, "other")
    clock.now += WINDOW_S - MOST_S - 1
    validate(bound, clock, MOST_S)


def test_usual_validations_never_count():
    clock = Clock(10 * WINDOW_S)
    bound = ValidationTime(clock)
    for _ in range(int(MOST_S / SLOW_S) * 2):
        validate(bound, clock, SLOW_S / 2)


def test_one_that_fails_counts_as_well():
    clock = Clock(10 * WINDOW_S)
    bound = ValidationTime(clock)

    def fail() -> None:
        with bound.measured("acme"):
            clock.now += MOST_S
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    with pytest.raises(Problem):
        validate(bound, clock, 0)


def test_submissions_go_through_the_bound_and_others_are_not_held_up(
    aws: Cloud, monkeypatch: pytest.MonkeyPatch
):
    clock = Clock(10 * WINDOW_S)
    problems = JsonSchema.problems

    def slow(schema: JsonSchema, value: Any, place: str) -> Any:
        clock.now += MOST_S / 4
        return problems(schema, value, place)

    monkeypatch.setattr(JsonSchema, "problems", slow)
    for tenant in ("acme", "other"):
        store_type(aws, tenant=tenant, params_schema={"type": "object"}, items=None)
    application = build(configure(Settings), aws.clients, time.time, monotonic=clock)
    job = {"type": "sync-tickets", "params": {}}
    _, answer = Api(application)("POST", "/v1/jobs/batch", {"jobs": [job] * 6})
    assert [202] * 4 + [429] * 2 == [entry["status"] for entry in answer["entries"]]
    refused = Api(application).raw("POST", "/v1/jobs", job)
    assert (429, "58") == (refused["statusCode"], refused["headers"]["Retry-After"])
    assert 202 == Api(application)("POST", "/v1/jobs", {"command": ["true"]})[0]
    assert 202 == Api(application, "client-other")("POST", "/v1/jobs", job)[0]


def test_many_fast_values_of_one_array_count_together(aws: Cloud, monkeypatch: pytest.MonkeyPatch):
    clock, seen = Clock(10 * WINDOW_S), list[str]()

    def quick(_schema: JsonSchema, _value: Any, place: str) -> Any:
        seen.append(place)
        clock.now += SLOW_S / 2
        return []

    monkeypatch.setattr(JsonSchema, "problems", quick)
    store_type(aws, params_schema={"type": "object"}, items=None)
    application = build(configure(Settings), aws.clients, time.time, monotonic=clock)
    array = {"type": "sync-tickets", "array": {"values": [{}] * 2000}}
    assert 429 == Api(application)("POST", "/v1/jobs", array)[0]
    assert len(seen) * SLOW_S / 2 < MOST_S + 3 * SLOW_S
