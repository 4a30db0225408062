"""Threads of a whole cluster, shared out: fairly, never too many, and each agent alone."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from joblane.deployment.names import AGENT_NAME_PATTERN
from joblane.queue.settings import QueueSettings
from joblane.queue.shares import SETTLE_S, Shares, share_out

NOW_MS = 1_800_000_000_000
OLD = NOW_MS - SETTLE_S * 1000

names = st.from_regex(AGENT_NAME_PATTERN, fullmatch=True)
rosters = st.lists(names, max_size=40, unique=True)
queues = st.from_regex(r"[a-z][a-z0-9-]{0,30}", fullmatch=True)


def shared(queue: str, cluster_threads: int, agents: list[str]) -> Shares:
    return share_out(queue, cluster_threads, [(name, OLD) for name in agents], NOW_MS)


def all_of(queue: str, cluster_threads: int, agents: list[str]) -> list[int]:
    found = shared(queue, cluster_threads, agents)
    return [found.of(name, OLD) for name in agents]


@pytest.mark.parametrize(
    ("cluster_threads", "agents", "expected"),
    [(10, 3, [4, 3, 3]), (2, 3, [1, 1, 0]), (0, 3, [0, 0, 0]), (7, 1, [7]), (3, 3, [1, 1, 1])],
)
def test_the_examples_of_the_design(cluster_threads: int, agents: int, expected: list[int]):
    parts = all_of("default", cluster_threads, [f"agent-{n}" for n in range(agents)])
    assert expected == sorted(parts, reverse=True)


@given(queue=queues, cluster_threads=st.integers(0, 10_000), agents=rosters)
def test_nothing_is_lost_nothing_is_given_twice_and_all_are_equal_to_one(
    queue: str, cluster_threads: int, agents: list[str]
):
    parts = all_of(queue, cluster_threads, agents)
    assert (cluster_threads if agents else 0) == sum(parts)
    assert not parts or max(parts) - min(parts) <= 1


@given(queue=queues, cluster_threads=st.integers(0, 200), agents=rosters, seed=st.integers())
def test_the_remainder_goes_to_consecutive_agents_whatever_order_they_are_read_in(
    queue: str, cluster_threads: int, agents: list[str], seed: int
):
    shuffled = random.Random(seed).sample(agents, len(agents))
    found = shared(queue, cluster_threads, agents)
    assert found == shared(queue, cluster_threads, shuffled)
    more = [found.of(name, OLD) > found.each for name in sorted(agents)]
    steps = [before != after for before, after in zip(more, more[1:] + more[:1], strict=True)]
    assert sum(steps) in (0, 2)  # one run of them, in a circle


@given(queue=queues, cluster_threads=st.integers(0, 200), agents=rosters)
def test_raising_a_limit_lowers_nobodys_share(queue: str, cluster_threads: int, agents: list[str]):
    before, after = (all_of(queue, n, agents) for n in (cluster_threads, cluster_threads + 1))
    assert all(old <= new for old, new in zip(before, after, strict=True))


def test_the_remainders_of_several_queues_do_not_all_go_to_one_agent():
    agents = [f"agent-{n}" for n in range(4)]
    lucky = {
        name
        for queue in ("default", "bulk", "gpu", "mail", "sync", "web")
        for name in agents
        if shared(queue, 1, agents).of(name, OLD)
    }
    assert len(lucky) > 1


@given(agents=rosters, queue=queues, cluster_threads=st.integers(0, 100), name=names)
def test_an_agent_that_was_not_counted_gets_nothing(
    agents: list[str], queue: str, cluster_threads: int, name: str
):
    members = [(other, OLD) for other in agents]
    found = share_out(queue, cluster_threads, [*members, (name, OLD + 1)], NOW_MS)
    assert found == share_out(queue, cluster_threads, members, NOW_MS)
    assert 0 == found.of(name, OLD + 1)


def test_the_same_agents_have_the_same_fingerprint_and_one_that_restarted_is_another():
    members = [("a", OLD), ("b", OLD - 5)]
    before = share_out("default", 5, members, NOW_MS)
    assert before.members == share_out("default", 9, reversed(members), NOW_MS + 60_000).members
    assert (
        before.members != share_out("default", 5, [("a", OLD - 1), ("b", OLD - 5)], NOW_MS).members
    )


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        (QueueSettings(), 8),
        (QueueSettings(threads=2), 2),
        (QueueSettings(threads=20), 20),
        (QueueSettings(threads=0), 0),
        (QueueSettings(run_jobs=False, threads=3), 0),
        (QueueSettings(cluster_threads=4, shares=shared("default", 4, ["me"])), 4),
        (QueueSettings(cluster_threads=40, shares=shared("default", 40, ["me"])), 8),
        (QueueSettings(threads=3, cluster_threads=4, shares=shared("q", 4, ["me"])), 3),
        (QueueSettings(cluster_threads=4), 0),
    ],
)
def test_a_cap_is_the_least_of_what_holds(settings: QueueSettings, expected: int):
    assert expected == settings.cap(8, "me", OLD)
