"""Jobs by state: right however batches come, and cheap."""

import random
from collections import Counter
from typing import Any

from aws_lambda_powertools.logging import Logger
from hypothesis import given, settings
from hypothesis import strategies as st

from functions.projector.handler import Settings, build
from joblane.aws.job.stream import read_record
from joblane.aws.queue.counters import CounterStore
from joblane.aws.queue.usage import UsageStore
from joblane.deployment.names import table_name
from joblane.errors import Changed
from joblane.queue.backlog import DUE, Backlog
from joblane.queue.oldest import about
from joblane.queue.state_counts import LETTERS, StateCounts, fold_states
from joblane.queue.usage import OPEN_MINUTES, RESETTLE, Accounts, Use
from joblane.service.put_aside import PutAside
from joblane.service.queue.count import Counting
from joblane.state.lifecycle import NOT_RUNNING, State
from tests.support.aws import NAME, Cloud, configure
from tests.support.depth import budget
from tests.support.job_stream import NOON, Stream
from tests.support.meter import Meter

MINUTE = NOON // 60
COUNTERS = table_name(NAME, "counters")


def counted(usage: UsageStore, tenant: str = "acme") -> dict[State, int]:
    accounts, _ = usage.accounts(tenant)
    assert accounts is not None
    return accounts.jobs.present.counts.by_state()


def test_every_state_has_a_letter_that_never_changes():
    """They are stored: add letters, and change none."""
    assert set(State) == set(LETTERS)
    assert "swparbcfdxekligh" == "".join(LETTERS[state] for state in State)
    assert len(LETTERS) == len(set(LETTERS.values()))


@given(st.dictionaries(st.sampled_from("abcdefgz"), st.integers(-(10**9), 10**9)))
def test_counts_read_back_and_keep_the_states_of_later_versions(letters: dict[str, int]):
    read = StateCounts.decode(StateCounts(letters).encode())
    assert {letter: number for letter, number in letters.items() if number} == read.by_letter


def test_a_jobs_life_is_counted_in_each_of_its_states(projector: Counting, usage: UsageStore):
    stream = Stream()
    lives: list[list[State | None]] = [
        [State.SCHEDULED, State.PENDING, State.ACTIVE, State.RETRY, State.ACTIVE, State.DEAD],
        [State.WAITING, State.PENDING, State.BLOCKED, State.PENDING, State.CANCELLED],
        [State.PENDING, State.ACTIVE, State.COMPLETED, None],
    ]
    for number, life in enumerate(lives):
        for state in life:
            projector.handle([stream.write(f"j{number}", state)])
            assert state is None or 1 == counted(usage)[state]
    assert {State.DEAD: 1, State.CANCELLED: 1} == counted(usage)


def test_a_job_that_expires_is_counted_no_more(projector: Counting, usage: UsageStore):
    stream = Stream()
    projector.handle([stream.write(f"j{n}", State.COMPLETED) for n in range(3)])
    projector.handle([stream.write("j1", None)])
    assert {State.COMPLETED: 2} == counted(usage)


def test_a_batch_that_comes_again_in_other_parts_counts_once(
    projector: Counting, usage: UsageStore
):
    """The second half undoes the first one: its counts replace those of the whole batch."""
    stream = Stream()
    batch = [stream.write(f"j{n}", State.PENDING) for n in range(5)]
    batch += [stream.write(f"j{n}", None) for n in range(5)]
    for part, left in ((batch[:5], 5), (batch, 0), (batch[:7], 3), (batch[7:], 0)):
        projector.handle(part)
        assert ({State.PENDING: left} if left else {}) == counted(usage)


def test_a_tenant_has_its_own_jobs(projector: Counting, usage: UsageStore):
    stream = Stream()
    projector.handle([stream.write("a", State.PENDING), stream.write("b", State.DEAD, tenant="b")])
    assert ({State.PENDING: 1}, {State.DEAD: 1}) == (counted(usage), counted(usage, "b"))


def test_what_was_counted_stays_after_the_counts_of_its_minutes_have_expired(
    projector: Counting, usage: UsageStore, now: list[int], aws: Cloud
):
    stream = Stream()
    projector.handle([stream.write(f"j{n}", State.PENDING) for n in range(4)])
    key = {"series": {"S": "acme"}, "at_minute": {"N": str(MINUTE)}}
    aws.clients.make("dynamodb").delete_item(TableName=COUNTERS, Key=key)
    now[0] += 5 * 3600
    projector.handle([stream.write("late", State.PENDING, now[0])])
    assert {State.PENDING: 5} == counted(usage)


def test_jobs_from_before_the_first_count_make_no_debt(
    projector: Counting, usage: UsageStore, now: list[int]
):
    """Ten jobs that were never counted end and expire: later ones count in full."""
    stream = Stream()
    for n in range(10):
        stream.write(f"old{n}", State.ACTIVE)
    projector.handle([stream.write(f"old{n}", State.COMPLETED) for n in range(10)])
    projector.handle([stream.write(f"old{n}", None) for n in range(10)])
    assert {} == counted(usage)
    now[0] += OPEN_MINUTES * 60 + 120
    projector.handle([stream.write("new", State.ACTIVE, now[0])])
    assert {State.ACTIVE: 1} == counted(usage)


class Dying(Exception):
    """A call of the projector ends here."""


class Stored(UsageStore):
    """The table of one tenant, in memory, whose writes and reads may be the last of a call."""

    def __init__(self, rng: random.Random) -> None:
        self._dice = rng
        self._minutes: dict[int, dict[str, Use]] = {}
        self._accounts: tuple[Accounts | None, int] = (None, 0)
        self.dying = False
        self.read: list[int] = []

    def _may_die(self) -> None:
        if self.dying and self._dice.random() < 0.2:
            raise Dying

    def put(
        self,
        _tenant: str,
        minute: int,
        use: tuple[int, Use] | None,
        states: tuple[int, StateCounts] | None,
        backlog: tuple[int, Backlog] | None,
    ) -> None:
        """Replace what a batch had stored."""
        self._may_die()
        found = self._minutes.setdefault(minute, {})
        if use is not None:
            found[f"b{use[0]}"] = use[1]
        if states is not None:
            found[f"c{states[0]}"] = Use(states=states[1])
        if backlog is not None:
            found[f"d{backlog[0]}"] = Use(backlog=backlog[1])

    def minutes(self, _tenant: str, since: int) -> dict[int, Use]:
        """Add up the batches of each minute."""
        self._may_die()
        self.read.append(len([minute for minute in self._minutes if minute >= since]))
        found: dict[int, Use] = {}
        for minute, batches in self._minutes.items():
            if minute >= since:
                found[minute] = Use()
                for use in batches.values():
                    found[minute].add(use)
        return found

    def accounts(self, _tenant: str) -> tuple[Accounts | None, int]:
        """What was stored last."""
        self._may_die()
        return self._accounts

    def store(self, _tenant: str, accounts: Accounts, over: int) -> None:
        """Store it over its version."""
        self._may_die()
        if self._accounts[1] != over:
            raise Changed
        self._accounts = (accounts, over + 1)


class NoCounters(CounterStore):
    """Counters of queues, which are not looked at."""

    def __init__(self) -> None:
        pass

    def put(self, *_: object) -> None:
        """Store nothing."""


class Scene:
    """The projector and the stream of jobs whose states change at random, over some hours."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.stored = Stored(self.rng)
        self.now = NOON
        self.last: dict[int, State | None] = {}
        self.queues: dict[int, str] = {}
        self._stream = Stream()
        self._late: list[tuple[int, list[dict[str, Any]]]] = []
        log = Logger(level="ERROR")
        aside = PutAside("projector", _refuse, log)
        self.counting = Counting(NoCounters(), self.stored, aside, log, lambda: self.now)

    def run(self) -> None:
        """Deliver batches in time, late, again, and in halves; then all that are late."""
        step_s = self.rng.choice((5, 60, 600))
        for _ in range(self.rng.randrange(1, 60)):
            batch = [self._write() for _ in range(self.rng.randrange(1, 8))]
            late_s = self.rng.choice((0, 0, 0, 5, 300, 3000))
            self._late.append((self.now + late_s, batch))
            self.now += self.rng.randrange(step_s + 1)
            self._deliver_due()
        while self._late:
            self.now += 300
            self._deliver_due()

    def _write(self) -> dict[str, Any]:
        job = self.rng.randrange(6)
        gone = self.last.get(job) is not None and self.rng.random() < 0.2
        self.last[job] = None if gone else self.rng.choice(list(State))
        self.queues[job] = self.rng.choice(("default", "bulk"))
        return self._stream.write(
            str(job),
            self.last[job],
            self.now,
            queue=self.queues[job],
            submitted=submitted_at(job),
        )

    def _deliver_due(self) -> None:
        due = [batch for at, batch in self._late if at <= self.now]
        self._late = [(at, batch) for at, batch in self._late if at > self.now]
        for batch in due:
            self._deliver(batch, 3)

    def _deliver(self, batch: list[dict[str, Any]], depth: int) -> None:
        self.stored.dying = depth > 0
        try:
            for _ in range(self.rng.choice((1, 1, 2))):
                self.counting.handle(batch)
        except Dying:
            half = len(batch) // 2
            for part in (batch[:half], batch[half:]) if half else (batch,):
                self._deliver(part, depth - 1)

    @property
    def counted(self) -> Accounts:
        """What is stored."""
        self.stored.dying = False
        accounts, _ = self.stored.accounts("acme")
        assert accounts is not None
        return accounts


def submitted_at(job: int) -> int:
    """When a job was submitted: each some hours before the next one."""
    return NOON - 10_000 * (6 - job)


def _refuse(what: object) -> None:
    raise AssertionError(what)


@given(seed=st.integers(0, 10_000))
@settings(max_examples=budget(6, 100))
def test_however_batches_come_and_calls_die_every_job_counts_once(seed: int):
    scene = Scene(seed)
    scene.run()
    states = Counter(state for state in scene.last.values() if state is not None)
    assert states == scene.counted.jobs.present.counts.by_state()
    waiting = sum(number for state, number in states.items() if state in NOT_RUNNING)
    assert waiting == scene.counted.figures.present.waiting
    backlog = scene.counted.jobs.present.backlog
    for queue in ("default", "bulk"):
        of = Counter(state for job, state in scene.last.items() if scene.queues.get(job) == queue)
        assert sum(of[state] for state in NOT_RUNNING) == backlog.queue(queue).waiting
        assert of[State.ACTIVE] == backlog.queue(queue).running
        due = [job for job in scene.last if scene.queues[job] == queue and scene.last[job] in DUE]
        oldest = about(backlog.due_in_queue(queue))
        assert (oldest is None) is (not due)
        if oldest is not None:
            first_ms = min(map(submitted_at, due)) * 1000
            assert oldest.earliest_ms <= first_ms <= oldest.latest_ms


def test_most_counts_read_a_few_minutes_only():
    """Three hours of batches every half minute: minutes are closed in between, and none twice."""
    scene = Scene(1)
    stored, stream = scene.stored, Stream()
    for batch in range(360):
        scene.now = NOON + 30 * batch
        scene.counting.handle([stream.write(f"j{batch}", State.PENDING, scene.now)])
    assert {State.PENDING: 360} == scene.counted.jobs.present.counts.by_state()
    whole = [minutes for minutes in stored.read if minutes > RESETTLE + 1]
    assert len(whole) <= 18
    print(f"minutes of a count, on average: {sum(stored.read) / len(stored.read):.1f}")
    assert sum(stored.read) / len(stored.read) < 12


def test_counts_of_a_late_call_that_died_are_found_by_later_ones():
    """Nobody delivers its batch again."""
    scene = Scene(1)
    stream = Stream()
    late = stream.write("late", State.PENDING, NOON)
    for minute in range(30):
        scene.now = NOON + 60 * minute
        scene.counting.handle([stream.write(f"j{minute}", State.PENDING, scene.now)])
    change = read_record(late)
    assert change is not None
    ((place, counts),) = fold_states([change]).items()
    scene.stored.put(*place, None, counts, None)
    for minute in range(30, 30 + RESETTLE):
        scene.now = NOON + 60 * minute
        scene.counting.handle([stream.write(f"j{minute}", State.PENDING, scene.now)])
    assert {State.PENDING: 31 + RESETTLE} == scene.counted.jobs.present.counts.by_state()


def test_counts_by_state_take_no_further_write_unit(aws: Cloud, now: list[int], meter: Meter):
    """A shard delivers twelve batches a minute: each writes two counters and the accounts."""
    settings = configure(Settings)
    projector, stream = build(settings, meter.clients_of(aws), lambda: now[0]), Stream(10**25)
    for batch in range(12):
        jobs = [f"j{batch}-{n}" for n in range(3)]
        lives: tuple[State | None, ...] = (State.PENDING, State.ACTIVE, State.COMPLETED, None)
        projector.handle([stream.write(job, state) for state in lives for job in jobs])
    assert 36 == meter.write_units
