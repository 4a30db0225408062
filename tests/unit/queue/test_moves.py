"""Passes that move jobs: where the next one goes on, when it begins, and who may write it."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from joblane.aws.queue.moves import QueueMoveStore
from joblane.deployment.names import table_name
from joblane.errors import Changed
from joblane.queue.moves import FIRST_AGAIN_MS, MOST_AGAIN_MS, QueueMove, after_page, begin
from tests.support.aws import NAME, Cloud

TENANTS = ("acme", "beta", "cora")
NOTHING = {"moved": 0, "kept": 0, "failed": 0}


def test_a_pass_walks_all_tenants_and_ends():
    move = begin(None, "new", TENANTS, 0)
    assert QueueMove("new", "acme") == move
    walked = []
    for following in ("01J9", None, None, None):
        assert move is not None
        walked.append((move.tenant, move.before))
        move = after_page(move, TENANTS, following, 7, moved=2, kept=1, failed=0)
    assert [("acme", None), ("acme", "01J9"), ("beta", None), ("cora", None)] == walked
    ended = QueueMove("new", None, None, passes=1, moved=8, kept=4, ended_ms=7)
    assert ended == move
    assert begin(ended, "new", TENANTS, 7 + FIRST_AGAIN_MS - 1) is None
    again = replace(ended, tenant="acme", kept=0)
    assert again == begin(ended, "new", TENANTS, 7 + FIRST_AGAIN_MS)


@pytest.mark.parametrize(
    ("passes", "minutes"), [(1, 15), (2, 30), (3, 60), (7, 960), (8, 1440), (30, 1440)]
)
def test_passes_are_twice_as_far_apart_each_time_up_to_a_day(passes: int, minutes: int):
    assert minutes * 60_000 == QueueMove("new", passes=passes, ended_ms=0).due_ms


def test_a_pass_in_which_a_move_failed_is_repeated_soon():
    move = QueueMove("new", "cora", passes=9, ended_ms=0)
    move = after_page(move, TENANTS, "01J9", 3, moved=0, kept=0, failed=1)
    move = after_page(move, TENANTS, None, 7, **NOTHING)
    assert (1, 7 + FIRST_AGAIN_MS) == (move.passes, move.due_ms)


def test_another_queue_to_move_to_begins_anew():
    move = QueueMove("new", "beta", "01J9", passes=3, moved=9, kept=2, ended_ms=5, version=8)
    assert QueueMove("newer", "acme", version=8) == begin(move, "newer", TENANTS, 6)


def test_it_begins_anew_without_a_tenant_that_joblane_toml_has_lost():
    move = QueueMove("new", "beta", "01J9", moved=9, kept=2, version=8)
    anew = QueueMove("new", "acme", None, moved=9, version=8)
    assert anew == begin(move, "new", ("acme", "cora"), 6)


@given(st.integers(0, 40), st.integers(0, 10**12))
def test_the_next_pass_is_never_further_than_a_day(passes: int, ended_ms: int):
    due_ms = QueueMove("new", passes=passes, ended_ms=ended_ms).due_ms
    assert due_ms is not None
    assert FIRST_AGAIN_MS <= due_ms - ended_ms <= MOST_AGAIN_MS


def test_of_two_that_move_the_same_page_one_writes(aws: Cloud):
    store = QueueMoveStore(aws.clients.make("dynamodb"), table_name(NAME, "settings"))
    first = store.write("old", QueueMove("new", "acme"))
    assert {"old": first} == store.read(["old", "other"])
    assert 1 == first.version
    second = store.write("old", replace(first, before="01J9", moved=3))
    with pytest.raises(Changed):
        store.write("old", replace(first, before="01J8"))
    with pytest.raises(Changed):
        store.write("old", QueueMove("new", "acme"))
    # The SDK repeats a call whose answer was lost.
    assert second == store.write("old", replace(first, before="01J9", moved=3))
