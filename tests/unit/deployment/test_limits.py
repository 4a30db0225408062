"""Limits by tenant: defaults, overrides, and the compact form for functions and agents."""

import pytest
from pydantic import ValidationError

from joblane.config import Config
from joblane.deployment.limits import LimitOverrides, Limits, TenantLimits


def config(**limits: object) -> Config:
    return Config.model_validate(
        {"tenants": {"acme": {}, "other": {}}, "queues": {"default": {}}, **limits}
    )


def test_a_tenant_has_the_defaults_until_joblane_toml_says_otherwise() -> None:
    plain = config().limits_by_tenant
    assert TenantLimits() == plain.of("acme") == plain.of("unheard-of")

    changed = config(
        limits={"jobs_waiting": 50},
        tenants={"acme": {"limits": {"jobs_running": 3}}, "other": {}},
    ).limits_by_tenant
    assert TenantLimits(jobs_waiting=50, jobs_running=3) == changed.of("acme")
    assert TenantLimits(jobs_waiting=50) == changed.of("other")


def test_an_override_may_equal_the_built_in_default() -> None:
    limits = Limits(
        default=TenantLimits(jobs_waiting=50),
        tenants={"acme": LimitOverrides(jobs_waiting=100_000)},
    )
    compact = Limits.model_validate_json(limits.compact("jobs_waiting"))
    assert (100_000, 50) == (compact.of("acme").jobs_waiting, compact.of("other").jobs_waiting)


def test_the_compact_form_holds_what_was_set_and_was_asked_for_only() -> None:
    limits = config(
        limits={"jobs_waiting": 50, "jobs_running": 7},
        tenants={
            "acme": {"limits": {"jobs_waiting": 5, "output_mb_per_job": 1}},
            "other": {"limits": {"jobs_running": 2}},
        },
    ).limits_by_tenant
    assert '{"default":{"jobs_waiting":50},"tenants":{"acme":{"jobs_waiting":5}}}' == (
        limits.compact("jobs_waiting")
    )
    assert "{}" == config().limits_by_tenant.compact("jobs_waiting", "output_mb_per_day")


def test_a_tenant_may_be_paused_and_not_the_deployment():
    paused = config(tenants={"acme": {"limits": {"jobs_running": 0}}})
    limits = paused.limits_by_tenant
    assert (0, 10_000) == (limits.of("acme").jobs_running, limits.of("other").jobs_running)
    assert 0 == limits.only("jobs_running").of("acme").jobs_running
    with pytest.raises(ValidationError, match=r"limits\.jobs_running"):
        config(limits={"jobs_running": 0})
