"""The decisions of a key, one by one; tests/unit/key/test_model.py tries them in every order."""

import pytest

from joblane.formats.pointer import PointsNowhere, parse_pointer, resolve
from joblane.key.decide import (
    Coalesced,
    End,
    Granted,
    Queued,
    Rejected,
    Replaced,
    admit,
    find_blockers,
    readmit,
    release,
)
from joblane.key.policy import KeyLimits, WhenFull
from joblane.key.segments import NoSegment, fill_in, key_hash, segments_text
from joblane.key.state import Grant, KeyState


def limits(active: int = 1, queued: int = 0, when_full: WhenFull = "reject") -> KeyLimits:
    return KeyLimits(max_active=active, max_queued=queued, when_full=when_full)


def held(*active: str, queued: tuple[str, ...] = (), by: KeyLimits | None = None) -> KeyState:
    slots = {job: 10 + number for number, job in enumerate(active)}
    return KeyState(10 + len(active), slots, queued, by or limits())


def test_an_idle_key_always_admits_one():
    decision = admit(KeyState(grants=7), "a", limits(), {})
    assert isinstance(decision, Granted)
    assert ({"a": 8}, 8) == (decision.state.active, decision.slot)


def test_nobody_overtakes_those_that_wait():
    decision = admit(held("a", queued=("b",)), "c", limits(2, 5), {})
    assert isinstance(decision, Queued)
    assert ("b", "c") == decision.state.queued


@pytest.mark.parametrize(
    ("started", "reason"), [({"a": True}, "active-limit"), ({"a": False}, "queue-depth")]
)
def test_a_full_key_rejects_and_says_which_limit_it_was(started: dict[str, bool], reason: str):
    assert ("a",) == find_blockers(held("a"), limits())
    decision = admit(held("a"), "b", limits(), started)
    assert isinstance(decision, Rejected)
    assert reason == decision.reason


def test_a_full_key_coalesces_with_the_first_that_waits_else_with_a_holder():
    policy = limits(1, 1, "coalesce")
    assert () == find_blockers(held("a", queued=("b",)), policy)
    assert Coalesced("b") == admit(held("a", queued=("b",)), "c", policy, {})
    assert Coalesced("a") == admit(held("a"), "c", limits(when_full="coalesce"), {})


def test_replace_oldest_skips_the_first_that_waits():
    decision = admit(held("a", queued=("b", "c")), "d", limits(1, 2, "replace-oldest"), {})
    assert isinstance(decision, Replaced)
    assert ("b", None, ("c", "d")) == (decision.victim, decision.slot, decision.state.queued)


def test_replace_oldest_takes_the_slot_of_a_holder_that_has_not_started():
    policy = limits(2, 0, "replace-oldest")
    decision = admit(held("a", "b"), "c", policy, {"a": True, "b": False})
    assert isinstance(decision, Replaced)
    assert ("b", 13, {"a": 10, "c": 13}) == (decision.victim, decision.slot, decision.state.active)
    assert isinstance(
        admit(held("a"), "c", limits(when_full="replace-oldest"), {"a": True}), Rejected
    )


def test_an_end_frees_the_slot_and_the_first_that_waits_gets_it():
    released = release(held("a", queued=("b", "c")), [End("a", 10)])
    assert released.state is not None
    assert ({"b": 12}, ("c",)) == (released.state.active, released.state.queued)
    assert (Grant("b", 12),) == released.granted


def test_a_repeated_end_lets_every_holder_go_again():
    released = release(held("b", queued=("c",)), [End("a", 9)])
    assert released.state is None
    assert (Grant("b", 10),) == released.granted


def test_a_repeated_end_in_a_batch_lets_every_holder_go_again():
    state = held("b", "d", queued=("c",), by=limits(2, 5))
    released = release(state, [End("a", 9), End("d", 11)])
    assert (Grant("b", 10), Grant("c", 13)) == released.granted


def test_the_late_end_of_a_job_that_was_retried_frees_nothing():
    again = readmit(held("a"), "a", limits(), {})
    assert isinstance(again, Granted)
    assert 12 == again.slot
    released = release(again.state, [End("a", 10)])
    assert released.state is None


def test_the_end_of_a_job_that_was_cancelled_before_it_was_let_go_frees_its_slot():
    released = release(held("a", queued=("b",)), [End("a", None)])
    assert released.state is not None
    assert {"b": 12} == released.state.active


def test_lowered_limits_end_no_job_and_are_reached_as_jobs_end():
    state = held("a", "b", "c", queued=("d",), by=limits(1, 5))
    released = release(state, [End("a", 10)])
    assert released.state is not None
    assert (2, ("d",), ()) == (
        len(released.state.active),
        released.state.queued,
        released.granted,
    )


def test_segments_differ_where_a_joined_text_would_not():
    assert key_hash(["a", "b:c"]) != key_hash(["a:b", "c"])
    assert key_hash(["1"]) != key_hash([1])
    assert key_hash([1.0]) == key_hash([1])
    assert '["z", 1, "ü"]' == segments_text(["z", 1.0, "ü"])


def test_pointers_lead_to_constants_and_problems_do_not_repeat_values():
    params = {"origin": "acme", "a/b": [{"~": 3}], "flag": True, "long": "x" * 201, "map": {}}
    assert ("zendesk", "acme", 3) == fill_in(["zendesk", "/origin", "/a~1b/0/~0"], params)
    (flag,) = fill_in(["/flag"], params)
    assert flag is True
    for pointer, problem in (
        ("/none", "/none leads to nothing there"),
        ("/a~1b/1", "/a~1b/1 leads to nothing there"),
        ("/a~1b/00", "/a~1b/00 leads to nothing there"),
        ("/map", "must be a string, a number or a boolean"),
        ("/long", "must be at most 200 bytes"),
    ):
        with pytest.raises(NoSegment) as refused:
            fill_in([pointer], params)
        assert (pointer, problem) == (refused.value.pointer, str(refused.value))


@pytest.mark.parametrize("text", ["", "a", "/a~", "/~2"])
def test_what_is_no_pointer(text: str):
    with pytest.raises(ValueError, match="must be a JSON Pointer"):
        parse_pointer(text)


def test_a_pointer_into_a_scalar_leads_nowhere():
    with pytest.raises(PointsNowhere):
        resolve({"a": "text"}, "/a/0")
