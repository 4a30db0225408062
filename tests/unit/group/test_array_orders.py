"""An array in any order of events, while functions die and messages are lost: none runs twice.

Agents take whatever message they find, and whoever looks does so late or not at all. Between every
two calls of a function something else may happen.
"""

import json
import random
from collections import Counter
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from joblane.aws.fleet.agents import AgentStore
from joblane.aws.job.ends import read_left
from joblane.aws.job.jobs import Refused
from joblane.contract.problems import TryAgain
from joblane.formats.ids import ids_from
from joblane.job.head import make_head
from joblane.job.moves import AttemptFacts, NotAllowed
from joblane.service.group.cancel import GroupCancel
from joblane.service.group.expansion import Expansion
from joblane.service.group.watch import GroupWatch
from joblane.service.target.assigned import AssignedJobs
from joblane.state.lifecycle import Outcome, State
from joblane.state.timeline import Step
from joblane.testing.inline import Inline
from tests.support.aws import DESCRIPTOR
from tests.support.depth import budget
from tests.support.groups import NOW_MS, GroupWorld
from tests.support.jobs import JOB, named, submission

LANE = DESCRIPTOR.lane_url("default", "default")
ENDS = (State.COMPLETED, State.COMPLETED, State.FAILED)
ROW_S = 86_400
"""Life of the row of an ended job, as the shortest retention has it."""


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("joblane.service.decide_again.FIRST_PAUSE_S", 0.0)


class ArrayDrill:
    """Lets things happen to an array, in an order that a seed decides."""

    def __init__(self, seed: int, members: int, most: int | None) -> None:
        self.rng = random.Random(seed)
        self.at = at = GroupWorld(seed)
        self.now_ms = NOW_MS
        self.starts: Counter[int] = Counter()
        self.ended: dict[int, State] = {}
        self.rows_end: dict[int, int] = {}
        self.takes = 0
        self.calm = False
        self.swept = False
        """Whether a cancel has passed all members."""
        at.inboxes.make(LANE)
        self.expansion = Expansion(at.store, at.members, DESCRIPTOR.retention, lambda: self.now_ms)
        at.settlement = replace(
            at.settlement,
            clock=lambda: self.now_ms / 1000,
            go_on=lambda group: self.expansion.go_on(group, lambda: self.rng.choice([0.0, 1.0])),
        )
        nobody: Any = None
        assigned = AssignedJobs(at.store, nobody, at.operations, DESCRIPTOR.retention)
        agents = AgentStore(nobody, DESCRIPTOR.agents_table)
        self.watch = GroupWatch(
            at.store, agents, assigned, self.expansion, at.settlement.settle, pool=Inline
        )
        self.cancels = GroupCancel(
            at.store, at.operations, at.members.place, at.settlement, pool=Inline
        )
        fields = {} if most is None else {"max_concurrency": most}
        head = make_head(JOB, "acme", submission(array={"size": members}, **fields), NOW_MS)
        head = self.expansion.begin_array(head, ids_from(NOW_MS, 1 << 70, members), NOW_MS)
        step = Step(State.PROCESSING, NOW_MS, 0, "as the test wants")
        at.rows.put_new(replace(head, state=State.PROCESSING, timeline=(step,)))
        self.numbers = {at.group.id_of(number): number for number in range(members)}
        at.meddle = self.meddle

    def meddle(self) -> None:
        """Something else happens between two calls of a process."""
        if not self.calm and self.rng.random() < 0.05:
            self.rng.choice([self.take, self.end, self.deliver, self.place, self.look])()

    def point(self) -> int:
        """After how many calls the next process dies; mostly never."""
        return 0 if self.calm or self.rng.random() < 0.7 else self.rng.randint(1, 15)

    def place(self) -> None:
        """A request, or requeue, places members."""
        head, left_s = self.at.head, self.rng.choice([0.0, 1.0])
        with suppress(TryAgain):
            self.at.is_killed(lambda: self.expansion.expand(head, lambda: left_s), self.point())

    def look(self) -> None:
        """Requeue looks at the group."""
        head = self.at.head
        if head.state is State.PROCESSING:
            with suppress(TryAgain):
                self.at.is_killed(
                    lambda: self.watch.look(head, self.now_ms, lambda: 9.0), self.point()
                )

    def deliver(self) -> None:
        """The stream brings what has ended; some of it comes again, some never."""
        records = self.at.stream.take()
        if not self.calm:
            self.rng.shuffle(records)
        again = records if self.at.is_killed(lambda: self._bring(records), self.point()) else []
        self.at.stream.records[:0] = again

    def _bring(self, records: list[Any]) -> None:
        with suppress(TryAgain):
            self.at.deliver(records)
            if any(read_left(record) for record in records):
                self.at.settlement.resume(JOB)

    def take(self) -> None:
        """An agent takes a message, and starts its job if that is to run."""
        entries = self.at.inboxes.entries[LANE]
        if not entries:
            return
        chosen = self.rng.choice(list(entries))
        job_id = json.loads(entries[chosen].body)["job_id"]
        if self.rng.random() < 0.9 or self.calm:
            del entries[chosen]  # else it is received again
        if not self.calm and self.rng.random() < 0.05:
            return  # it is lost with its agent
        self.takes += 1
        with suppress(Refused):
            self.at.rows.claim(named(job_id), f"agent-{self.takes}", self.now_ms)
            assert not self.swept, "claimed after a cancel has passed all members"
            self.starts[self.numbers[job_id]] += 1

    def end(self) -> None:
        """A job that runs ends."""
        running = [index for index, state in self.at.states().items() if state is State.ACTIVE]
        if not running:
            return
        index, state = self.rng.choice(running), self.rng.choice(ENDS)
        head, now_s = self.at.member(index), self.now_ms // 1000
        facts = AttemptFacts(Outcome.SUCCEEDED, expires_at=now_s + ROW_S)
        self.at.rows.settle(head, Step(state, self.now_ms, head.attempt, "so"), facts)
        self.ended[index], self.rows_end[index] = state, now_s + ROW_S

    def wait(self) -> None:
        """Time passes, now and then so much that rows expire."""
        self.now_ms += self.rng.choice([10_000, 300_000, 1_200_000, 90_000_000])
        for index, until in list(self.rows_end.items()):
            if until <= self.now_ms // 1000:
                self.at.drop_row(index)
                del self.rows_end[index]

    def cancel(self) -> None:
        """Somebody cancels the group; the request may die, and is sent again for each page."""
        page: int | None = None
        head = self.at.head

        def sweep() -> None:
            nonlocal page
            while True:
                swept = self.cancels.cancel(head, "cancelled", self.now_ms, page=page)
                page = swept.following
                if page is None:
                    return

        with suppress(NotAllowed, TryAgain):
            if not self.at.is_killed(sweep, self.point()):
                self.swept = True

    def happen(self, times: int) -> None:
        """Let things happen."""
        every = [self.take] * 6 + [self.end] * 5 + [self.deliver] * 3
        every += [self.place, self.place, self.look, self.wait]
        for _ in range(times):
            self.rng.choice(every)()
            self.check()

    def finish(self) -> None:
        """Run everything to its end, as if nobody had died."""
        self.calm = True
        for _ in range(2000):
            if self.at.head.ended:
                break
            self.now_ms += 700_000
            self.look()
            while self.at.inboxes.entries[LANE]:
                self.take()
            while State.ACTIVE in self.at.states().values():
                self.end()
            self.deliver()
            self.check()

    def check(self) -> None:
        """No member has run twice."""
        assert {1} >= set(self.starts.values())


@given(
    seed=st.integers(0, 2**32),
    members=st.integers(1, 30) | st.sampled_from([105]),
    most=st.none() | st.integers(1, 6) | st.just(32),
    cancels=st.booleans(),
)
@settings(max_examples=budget(12, 80), deadline=None)
def test_no_member_runs_twice_and_none_is_lost(
    seed: int, members: int, most: int | None, *, cancels: bool
):
    drill = ArrayDrill(seed, members, most)
    drill.happen(60)
    if cancels:
        drill.cancel()
        drill.happen(20)
    drill.finish()
    head = drill.at.head
    assert head.ended
    rows = drill.at.states()
    for index in range(members):
        if index in drill.ended:
            assert 1 == drill.starts[index]
        elif not cancels:
            # Not placed within a day: somebody has to decide whether it runs.
            assert (State.FAILED, 0) == (rows.get(index), drill.starts[index])
    if len(rows) == members:
        assert drill.at.truth() is head.state


def test_an_array_whose_functions_never_die_runs_each_member_once():
    drill = ArrayDrill(1, 230, 64)
    drill.finish()
    assert dict.fromkeys(range(230), 1) == dict(drill.starts)
    assert drill.at.truth() is drill.at.head.state
