"""`jobs_running` of tenants, shared out: never exceeded, and in the way of nobody below it."""

import time
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from ec2_agent.lanes.queue_limits import QueueLimits
from functions.requeue.handler import Settings, build
from joblane.aws.queue.settings import SettingsStore
from joblane.deployment.names import AGENT_NAME_PATTERN, table_name
from joblane.queue.shares import SETTLE_S
from joblane.queue.tenant_shares import (
    UNCOUNTED,
    Allowance,
    TenantShares,
    share_out_tenants,
)
from joblane.state.lease import LEASE_S, Heartbeat
from tests.support.agents import settings as agent_settings
from tests.support.aws import FUNCTION_ENVIRONMENT, NAME, Cloud
from tests.support.fleet import beat_ago
from tests.support.meter import Meter

NOW_MS = 1_800_000_000_000
OLD = NOW_MS - SETTLE_S * 1000
QUEUES: dict[str, tuple[str, ...]] = {"default": (), "bulk": ("acme",)}

names = st.from_regex(AGENT_NAME_PATTERN, fullmatch=True)
fleets = st.dictionaries(names, st.integers(1, 64), max_size=40)


def agent(name: str, threads: int = 8, *queues: str, since_ms: int = OLD) -> Heartbeat:
    return Heartbeat(name, since_ms, NOW_MS, threads, 0, queues or ("default",), "full", "1")


@given(limit=st.integers(1, 2000), fleet=fleets)
def test_agents_together_never_run_more_and_no_thread_idles_below_the_limit(
    limit: int, fleet: dict[str, int]
):
    agents = [agent(name, threads) for name, threads in fleet.items()]
    found = share_out_tenants({"acme": limit}, QUEUES, agents, NOW_MS)
    may = [min(a.threads, found.of("acme", limit, a.name, OLD).share) for a in agents]
    assert sum(may) <= limit
    even = limit // len(agents) if agents else 0
    assert all(share >= min(a.threads, even) for share, a in zip(may, agents, strict=True))


def test_a_limit_that_the_agents_cannot_exceed_is_not_shared_out():
    agents = [agent(f"a{n}") for n in range(100)]
    found = share_out_tenants({"acme": 10_000, "other": 799}, QUEUES, agents, NOW_MS)
    assert ["other"] == list(found.tenants)
    assert Allowance(10_000, 10_000) == found.of("acme", 10_000, "a1", OLD)


def test_a_share_is_for_agents_that_the_tenants_jobs_can_reach():
    agents = [agent("a"), agent("b", 8, "bulk"), agent("c", 8, "bulk")]
    found = share_out_tenants({"acme": 3, "other": 3}, QUEUES, agents, NOW_MS)
    assert [1, 1, 1] == [found.of("acme", 3, name, OLD).share for name in "abc"]
    assert 3 == found.of("other", 3, "a", OLD).share


def test_an_agent_that_is_not_counted_yet_has_a_hundredth():
    fresh = agent("new", since_ms=OLD + 1)
    found = share_out_tenants({"acme": 3}, QUEUES, [agent("a"), fresh], NOW_MS)
    assert Allowance(3, 3) == found.of("acme", 3, "a", OLD)
    assert Allowance(3, 0) == found.of("acme", 3, "new", fresh.since_ms)
    assert Allowance(10_000, 100) == found.of("other", 10_000, "new", fresh.since_ms)
    assert 100 == UNCOUNTED
    assert Allowance(250, 2) == TenantShares().of("acme", 250, "first", NOW_MS)


def test_a_tenant_with_a_limit_of_none_is_paused_on_every_agent_also_one_that_has_just_come():
    fresh = agent("new", since_ms=OLD + 1)
    found = share_out_tenants({"acme": 0}, QUEUES, [agent("a"), fresh], NOW_MS)
    assert Allowance(0, 0) == found.of("acme", 10_000, "a", OLD)
    assert Allowance(0, 0) == found.of("acme", 10_000, "new", fresh.since_ms)
    assert Allowance(10_000, 10_000) == found.of("other", 10_000, "a", OLD)


def test_a_limit_that_was_lowered_reaches_agents_that_know_the_old_one():
    found = share_out_tenants({"acme": 2}, QUEUES, [agent("a")], NOW_MS)
    assert Allowance(2, 2) == found.of("acme", 10_000, "a", OLD)


def test_what_is_stored_is_as_long_for_a_thousand_agents_as_for_two():
    def length(count: int) -> int:
        agents = [agent(f"a{n:04}") for n in range(count)]
        return len(repr(share_out_tenants({"acme": 1}, QUEUES, agents, NOW_MS)))

    assert length(2) == length(1000)


def allowed(store: SettingsStore, name: str, tenant: str = "acme", limit: int = 5) -> int:
    """What an agent that started an hour ago may run."""
    _, shares = store.get_for_agent(["default"])
    return shares.of(tenant, limit, name, int((time.time() - 3600) * 1000)).share


def test_requeue_shares_limits_out_anew_where_agents_have_come_or_gone(aws: Cloud, meter: Meter):
    limits = '{"acme": 5, "other": 10000}'
    environment = {**FUNCTION_ENVIRONMENT, "JOBLANE_JOBS_RUNNING": limits}
    requeue = build(Settings.model_validate(environment), meter.clients_of(aws), time.time)
    store = SettingsStore(aws.clients.make("dynamodb"), table_name(NAME, "settings"))

    def run() -> tuple[int, int]:
        before = meter.calls.copy()
        done = requeue.run(lambda: 60.0)
        assert 0 == done["Failed"]
        return done["Shared"], (meter.calls - before)["dynamodb.UpdateItem"]

    beat_ago(aws, "a")
    beat_ago(aws, "dead", age_s=LEASE_S + 1)
    assert (1, 3) == run()  # and what agents can give, and when passes began
    assert (0, 0) == run()
    assert 5 == allowed(store, "a")
    beat_ago(aws, "b")
    assert (1, 1) == run()
    assert [2, 3] == sorted(allowed(store, name) for name in "ab")
    assert 10_000 == allowed(store, "a", "other", 10_000)
    aws.agents.delete("a")
    assert (1, 1) == run()
    assert 5 == allowed(store, "b")


def test_a_slow_requeue_does_not_undo_a_later_one(aws: Cloud):
    store = SettingsStore(aws.clients.make("dynamodb"), table_name(NAME, "settings"))
    agents = [agent("a"), agent("b")]
    later = share_out_tenants({"acme": 4}, QUEUES, agents, NOW_MS + 60_000)
    assert store.put_tenant_shares(later)
    assert not store.put_tenant_shares(share_out_tenants({"acme": 4}, QUEUES, agents[:1], NOW_MS))
    assert later == store.tenant_shares()


def test_an_agent_reads_its_shares_in_the_request_that_it_makes_anyway(aws: Cloud, meter: Meter):
    store = SettingsStore(meter.clients_of(aws).make("dynamodb"), table_name(NAME, "settings"))
    settings, shares = store.get_for_agent(["default", "bulk"])
    assert (["default", "bulk"], TenantShares()) == (list(settings), shares)
    assert {"dynamodb.BatchGetItem": 1} == meter.calls
    limits = QueueLimits(replace(agent_settings(), since_ms=NOW_MS), store, lambda: None)
    assert 100 == limits.of_tenant("acme").share  # the hundredth of the default
