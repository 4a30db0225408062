"""Which pages of a group a follower reads, and what it shows of them."""

import math
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from joblane.client.answers import GroupPage
from joblane.client.follow import News
from joblane.client.group_follow import GroupReading
from joblane.group.array import MOST_MEMBERS
from joblane.group.record import PAGE


@dataclass
class Group:
    """Members that have begun up to a number, and some of which have ended."""

    members: int
    begun: int = 0
    ended: set[int] = field(default_factory=set)
    stopped: bool = False
    reads: list[int | None] = field(default_factory=list)

    @property
    def settled(self) -> bool:
        """Whether the group has ended."""
        return len(self.ended) == (self.begun if self.stopped else self.members)

    def read(self, number: int | None) -> GroupPage:
        """Read a page, or the group's job alone."""
        self.reads.append(number)
        state = "completed" if self.settled else "processing"
        job: Any = {"id": "01JG", "state": state, "members": self.members}
        if number is None:
            return {"group": job, "entries": []}
        end = min((number + 1) * PAGE, self.members)
        entries: list[Any] = [self.member(index) for index in range(number * PAGE, end)]
        cursor = str(number + 1) if end < self.members else None
        return {"group": job, "entries": entries, "next": cursor}

    def member(self, index: int) -> dict[str, Any]:
        """A member as the API answers it."""
        if index in self.ended:
            return {"index": index, "id": f"{index}", "state": "completed"}
        if index < self.begun:
            return {"index": index, "id": f"{index}", "state": "active"}
        return {"index": index, "id": None, "state": "skipped" if self.stopped else "waiting"}


def one_read(reading: GroupReading, group: Group, shown: Counter[int]) -> News:
    """Read one page. Returns when to read on."""
    number = reading.at
    assert number is None or reading.cursors[number] == (str(number) if number else None)
    news, pace = reading.take(group.read(number))
    shown.update(member.index for member in news.ended)
    return pace


def one_pass(reading: GroupReading, group: Group, shown: Counter[int]) -> bool:
    """Read until the next pause. Returns whether all was read."""
    while (pace := one_read(reading, group, shown)).more:
        pass
    return pace.done


@given(st.data())
def test_every_member_is_shown_once_in_any_order_of_ends(data: st.DataObject) -> None:
    """Members begin and end between any two reads; the group may be stopped on the way."""
    group = Group(data.draw(st.integers(0, 3 * PAGE + 1), label="members"))
    reading, shown, done = GroupReading(), Counter[int](), False
    for _ in range(data.draw(st.integers(0, 8), label="reads")):
        group.begun = data.draw(st.integers(group.begun, group.members), label="begun")
        left = sorted(set(range(group.begun)) - group.ended)
        last = data.draw(st.integers(0, 9), label="all end") == 0
        group.ended |= set(left if last else _some(data, left))
        done = done or one_read(reading, group, shown).done
        assert not done or group.settled
    group.stopped = data.draw(st.booleans(), label="stopped")
    group.begun = group.begun if group.stopped else group.members
    group.ended |= set(range(group.begun))
    for _ in range(3):
        done = done or one_pass(reading, group, shown)
    assert done
    assert dict.fromkeys(range(group.members), 1) == shown


def _some(data: st.DataObject, members: list[int]) -> list[int]:
    return data.draw(st.lists(st.sampled_from(members))) if members else []


def test_a_page_whose_members_have_ended_is_not_read_again() -> None:
    group = Group(3 * PAGE, begun=3 * PAGE, ended=set(range(2 * PAGE)))
    reading, shown = GroupReading(), Counter[int]()
    one_pass(reading, group, shown)
    assert [0, 1, 2] == group.reads
    for _ in range(3):
        one_pass(reading, group, shown)
    assert [0, 1, 2, 2, 2, 2] == group.reads
    assert [2] == list(reading.shown)


def test_pages_that_have_not_begun_are_not_read() -> None:
    """A group with 10,000 members of which 10 run at once is two pages for a follower."""
    group = Group(MOST_MEMBERS, begun=10)
    reading, shown = GroupReading(), Counter[int]()
    one_pass(reading, group, shown)
    assert [0, 1] == group.reads


def test_ten_thousand_members_cost_a_page_for_each_hundred_and_one_request_at_the_end() -> None:
    group = Group(MOST_MEMBERS, begun=MOST_MEMBERS)
    reading, shown = GroupReading(), Counter[int]()
    assert not one_pass(reading, group, shown)
    group.ended = set(range(MOST_MEMBERS))
    one_pass(reading, group, shown)
    while not one_pass(reading, group, shown):
        pass
    assert MOST_MEMBERS == len(shown)
    assert not reading.shown
    assert len(group.reads) <= 2 * math.ceil(MOST_MEMBERS / PAGE) + 1


@pytest.mark.parametrize("state", ["expired", "cancelled", "skipped"])
def test_a_group_that_ends_before_it_has_members_is_all_there_is(state: str) -> None:
    reading = GroupReading()
    page: GroupPage = {"group": {"id": "01JG", "state": "scheduled"}, "entries": []}
    _, pace = reading.take(page)
    assert (False, False) == (pace.more, pace.done)
    page["group"]["state"] = state
    _, pace = reading.take(page)
    assert pace.done


def test_a_member_whose_row_has_expired_has_ended() -> None:
    group = Group(2, begun=2, ended={0})
    page = group.read(0)
    page["entries"][1]["state"] = None
    reading = GroupReading()
    news, _ = reading.take(page)
    assert [0, 1] == [member.index for member in news.ended]
    assert {0} == reading.over


def test_a_member_in_a_state_that_is_not_known_does_not_keep_a_follower_for_ever() -> None:
    group = Group(2, begun=2, ended={0, 1})
    reading = GroupReading()
    page = group.read(0)
    page["entries"][1]["state"] = "newer"
    news, pace = reading.take(page)
    assert ([0], True) == ([member.index for member in news.ended], pace.done)
