"""A group and its members, in any order of events, which come twice and late, and after crashes."""

import itertools
import random
from collections import Counter
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from joblane.contract.problems import TryAgain
from joblane.errors import Changed
from joblane.group.record import cancel_group, chunk_of
from joblane.group.states import GROUP_STATES
from joblane.job.moves import NotAllowed
from joblane.state.lifecycle import ENDED, State
from tests.support.depth import budget
from tests.support.groups import FAILED, GroupWorld

if TYPE_CHECKING:
    from joblane.testing.memory.stream import Record

ENDS = (State.COMPLETED, State.COMPLETED, State.FAILED, State.DEAD, State.CANCELLED)


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("joblane.service.decide_again.FIRST_PAUSE_S", 0.0)


class Drill:
    """Lets things happen to a group, in an order that a seed decides."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.at = GroupWorld(seed)
        self.late: list[Record] = []
        """Records that the stream has not finished with."""
        self.at.meddle = self.meddle

    def meddle(self) -> None:
        """Something else happens between two calls of a process."""
        if self.rng.random() < 0.04:
            self.rng.choice([self.end, self.deliver, self.retry, self.look, self.stop])()

    def point(self) -> int:
        """After how many calls the next process dies; mostly never."""
        return self.rng.randint(1, 12) if self.rng.random() < 0.3 else 0

    def end(self) -> None:
        """Members end: one, or about as many as a chunk of those that may run at once."""
        most = self.at.head.spec.max_concurrency
        some = 1 if most is None else self.rng.randint(1, chunk_of(most) + 1)
        open_members = self.at.open()
        for index in self.rng.sample(open_members, min(some, len(open_members))):
            self.at.end(index, self.rng.choice(ENDS))

    def deliver(self) -> None:
        """Some records arrive, in any order; some of them come again."""
        self.late += self.at.stream.take()
        self.rng.shuffle(self.late)
        some = [self.late.pop() for _ in range(self.rng.randint(0, len(self.late)))]
        if self.at.is_killed(lambda: self.at.deliver(some), self.point()):
            self.late += some
        else:
            self.late += [record for record in some if self.rng.random() < 0.2]

    def expand(self) -> None:
        """A request, or requeue, places members."""
        with suppress(Changed):
            self.at.is_killed(self.at.expand, self.point())

    def retry(self) -> None:
        """Somebody retries a member."""
        failed = [index for index, state in self.at.states().items() if state in FAILED]
        if failed:
            index = self.rng.choice(failed)
            with suppress(NotAllowed):  # somebody else was first
                self.at.is_killed(lambda: self.at.retry(index), self.point())

    def look(self) -> None:
        """Requeue looks at the group."""
        self.at.is_killed(self.at.look, self.point())

    def stop(self) -> None:
        """Somebody cancels what has not begun."""
        head, group = self.at.head, self.at.group
        after = cancel_group(group, "cancelled")
        if after != group and self.rng.random() < 0.1:
            self.at.rows.write_group(head, replace(head, group=after))

    def happen(self, times: int) -> None:
        """Let things happen; whatever it was, the group says nothing wrong."""
        every = [self.end] * 5 + [self.deliver] * 3
        every += [self.expand, self.expand, self.retry, self.look, self.stop]
        for _ in range(times):
            self.rng.choice(every)()
            self.check()

    def finish(self) -> None:
        """Run everything to its end, as if nobody had died."""
        self.at.meddle = lambda: None
        while self.at.head.state is State.PROCESSING or self.at.open():
            self.expand()
            self.at.look()
            for index in self.at.open():
                self.at.end(index, self.rng.choice(ENDS))
            self.check()
        self.at.deliver([*self.late, *self.at.stream.take()])

    def check(self) -> None:
        """Compare the group with the rows of its members."""
        head, most = self.at.head, self.at.head.spec.max_concurrency
        if head.ended:
            assert self.at.truth() is head.state
        if most is not None:
            assert len(self.at.open()) <= most
            assert self.at.group.open.issuperset(self.at.open())


def limits(most: int | None, failures: int | None) -> dict[str, int | None]:
    """What a submission says about them."""
    return {} if most is None else {"max_concurrency": most, "max_failures": failures}


@given(
    seed=st.integers(0, 2**32),
    members=st.integers(1, 12) | st.sampled_from([100, 130]),
    most=st.none() | st.integers(1, 4) | st.integers(32, 64),
    failures=st.none() | st.integers(0, 3),
)
@settings(max_examples=budget(12, 60), deadline=None)
def test_whatever_the_order_a_group_says_what_its_members_are(
    seed: int, members: int, most: int | None, failures: int | None
):
    drill = Drill(seed)
    at = drill.at
    at.submit(members, **limits(most, failures))
    drill.happen(50)
    drill.finish()
    assert at.truth() is at.head.state
    assert at.head.state in GROUP_STATES - {State.PROCESSING}
    assert ENDED.issuperset(at.states().values())
    steps = [step.state for step in at.head.timeline]
    assert all(a is not b for a, b in itertools.pairwise(steps)), "settled once, or opened again"
    before = at.head
    at.look()
    assert before == at.head


class Handlers:
    """Runs a group by its events alone: several handlers, which die, and nobody else looks."""

    def __init__(self, seed: int, members: int, most: int) -> None:
        self.rng = random.Random(seed)
        self.at = GroupWorld(seed)
        self.at.begin_all(members, max_concurrency=most)
        self.at.meddle = self.meddle
        self.left: list[Record] = []
        """Records that no handler has finished with."""
        self.busy = 0
        self.starts: Counter[int] = Counter()
        """How often each member has started."""

    def meddle(self) -> None:
        """Between two calls of a handler members end, and another handler does all of its work."""
        if self.busy < 3 and self.rng.random() < 0.15:
            self.end()
            self.handle()

    def end(self) -> None:
        """Some members end."""
        open_members = self.at.open()
        most = self.at.head.spec.max_concurrency
        assert most is not None
        assert len(open_members) <= most
        some = self.rng.randint(1, chunk_of(most) + 1)
        for index in self.rng.sample(open_members, min(some, len(open_members))):
            self.starts[index] += 1
            self.at.end(index, self.rng.choice((State.COMPLETED, State.FAILED)))

    def handle(self) -> None:
        """A handler gets some of the records; if it dies, they come again."""
        self.left += self.at.stream.take()
        self.rng.shuffle(self.left)
        some = [self.left.pop() for _ in range(self.rng.randint(0, len(self.left)))]
        self.busy += 1
        dies = self.rng.randint(1, 12) if self.rng.random() < 0.2 else 0
        try:
            if self.at.is_killed(lambda: self.at.deliver(some), dies):
                self.left += some
            else:
                self.left += [record for record in some if self.rng.random() < 0.1]
        except TryAgain:
            self.left += some
        finally:
            self.busy -= 1

    def run(self) -> None:
        """Until nothing is open, and no record is left."""
        while self.at.open() or self.left or self.at.stream.records:
            self.end()
            self.handle()


@given(
    seed=st.integers(0, 2**32),
    members=st.integers(1, budget(140, 260)),
    most=st.integers(1, 4) | st.integers(32, 70),
)
@settings(max_examples=budget(10, 150), deadline=None)
def test_all_members_run_once_by_their_events_alone_though_handlers_die(
    seed: int, members: int, most: int
):
    drill = Handlers(seed, members, most)
    drill.run()
    assert dict.fromkeys(range(members), 1) == dict(drill.starts)
    assert drill.at.truth() is drill.at.state()
    assert drill.at.head.ended
