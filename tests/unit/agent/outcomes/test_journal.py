"""The journal: outcomes wait there in order, and go out when AWS answers again."""

import asyncio
import random
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial

from hypothesis import given
from hypothesis import strategies as st

from ec2_agent.messages.delivery import Delivery
from ec2_agent.outcomes.journal import ASIDE_S, KIND, ROOM, Journal, Undelivered
from ec2_agent.outcomes.record import OutcomeRecord, decide
from ec2_agent.retry import Backoff, RetryPolicy
from ec2_agent.sandbox.model import Ending, Usage
from ec2_agent.state.client import StateRefused
from ec2_agent.state.records import StateRecord, WriteResult
from joblane.aws.queue.lanes import Received
from joblane.job.head import Head, make_head
from joblane.job.judge import AttemptResult
from joblane.job.outcome import OutcomeTransition
from joblane.state.lifecycle import Outcome, State
from joblane.state.retention import Retention
from joblane.state.timeline import Step
from tests.support.agents import DirectStore
from tests.support.jobs import submission
from tests.support.virtual_time import run

NOW_MS = 1_795_000_000_000
DELIVERY = Delivery("default", "https://lane", "https://dead", Received("{}", "r-1", 1, 5), 6.5)

QUICK = partial(Backoff, RetryPolicy(first_s=0.01, longest_s=0.01))
"""Retries that a test need not wait for."""


def make_claimed(job_id: str = "01J0000000000000000000000A", **fields: object) -> Head:
    head = make_head(job_id, "acme", submission(**fields), NOW_MS)
    step = Step(State.ACTIVE, NOW_MS + 5, 1, "claimed", "agent-1")
    return Head(
        job_id, "acme", State.ACTIVE, 3, 1, head.spec, (*head.timeline, step), agent="agent-1"
    )


def outcome(n: int = 0, verdict: Outcome = Outcome.SUCCEEDED, **fields: object) -> OutcomeRecord:
    ending = Ending(0, None, False, False, False, None, Usage(cpu_s=0.1, wall_s=0.25))
    condition = "app:default" if verdict is Outcome.BLOCKED else None
    result = AttemptResult(verdict, "exit code 0", NOW_MS + n, condition, ending, 7)
    head = make_claimed(f"01J{n:023d}", **fields)
    return decide(head, DELIVERY, result, Retention(), random.Random(1))


@dataclass
class Post:
    """A reporter whose AWS answers or does not."""

    down: bool = False
    sqs_down: bool = False
    refused: set[str] = field(default_factory=set)
    settled: list[str] = field(default_factory=list)
    let: list[str] = field(default_factory=list)

    async def settle(self, outcome: OutcomeRecord) -> OutcomeTransition | None:
        """See Reporter."""
        await asyncio.sleep(0)
        if self.down:
            raise Undelivered("no route to AWS")
        if outcome.head.job_id in self.refused:
            raise Undelivered("ValidationException", rejected=True)
        self.settled.append(outcome.head.job_id)
        return outcome.transition

    async def release_message(
        self, outcome: OutcomeRecord, transition: OutcomeTransition | None
    ) -> bool:
        """See Reporter."""
        assert transition is not None
        if self.sqs_down:
            return False
        self.let.append(outcome.head.job_id)
        return True


class Broken(DirectStore):
    """A state service whose disk is full."""

    async def create(self, records: Sequence[StateRecord]) -> list[WriteResult]:
        """Refuse."""
        raise StateRefused("storage_full", f"no room for {len(records)}", passing=False)


def stored(store: DirectStore) -> list[str]:
    page, _ = store.backend.list(KIND, None, 1000, time.time())
    return [OutcomeRecord.decode(record.body or "").head.job_id for record in page]


def ids(outcomes: Sequence[OutcomeRecord]) -> list[str]:
    return [outcome.head.job_id for outcome in outcomes]


def test_an_outcome_is_stored_before_aws_hears_of_it_and_removed_when_all_is_done():
    async def test() -> None:
        store, post = DirectStore(), Post()
        seen: list[list[str]] = []

        class Watching(Post):
            async def settle(self, outcome: OutcomeRecord) -> OutcomeTransition | None:
                seen.append(stored(store))
                return await super().settle(outcome)

            async def release_message(
                self, outcome: OutcomeRecord, transition: OutcomeTransition | None
            ) -> bool:
                seen.append(stored(store))
                return await super().release_message(outcome, transition)

        post = Watching()
        journal = Journal(store, post, time.time, QUICK)
        one = outcome()
        await journal.put(one)
        assert await journal.flush(5)
        assert [ids([one])] * 2 == seen
        assert [] == stored(store)
        assert (0, None, None) == (journal.waiting, journal.since_ms, journal.trouble)

    run(test())


def test_while_aws_is_away_outcomes_wait_and_go_out_in_order():
    async def test() -> None:
        store, post = DirectStore(), Post(down=True)
        journal = Journal(store, post, time.time, QUICK)
        many = [outcome(n) for n in (3, 1, 4, 0, 5, 9, 2, 6)]
        for each in many:
            await journal.put(each)  # the slot is free: nobody waits for AWS
        assert not await journal.flush(0.05)
        state = (journal.trouble, journal.waiting, journal.since_ms, journal.room)
        assert ("no route to AWS", 8, NOW_MS, ROOM - 8) == state
        assert set(ids(many)) == set(journal.job_ids)
        assert ids(many) == stored(store)
        post.down = False
        late = outcome(7)
        await journal.put(late)
        assert await journal.flush(5)
        assert ids([*many, late]) == post.settled
        assert (0, None) == (journal.waiting, journal.trouble)
        assert [] == stored(store)

    run(test())


def test_the_next_agent_of_the_name_goes_on_in_order_once_it_has_said_whose_the_jobs_are():
    async def test() -> None:
        store, post = DirectStore(), Post(down=True)
        journal = Journal(store, post, time.time, QUICK)
        many = [outcome(n) for n in (2, 0, 1)]
        for each in many:
            await journal.put(each)
        post = Post()
        journal = Journal(store, post, lambda: 0.0, QUICK)  # and its clock was set back
        assert many == await journal.recover()
        assert (ids(many), []) == (journal.job_ids, post.settled)
        await journal.put(outcome(3))
        assert [] == post.settled
        journal.resume()
        assert await journal.flush(5)
        assert ids([*many, outcome(3)]) == post.settled

    run(test())


def test_one_that_is_refused_for_itself_keeps_no_other_waiting():
    async def test() -> None:
        store = DirectStore()
        post = Post(down=True, refused={outcome(1).head.job_id})
        journal = Journal(store, post, time.time, QUICK)
        for n in range(4):
            await journal.put(outcome(n))
        post.down = False
        await journal.flush(ASIDE_S / 2)
        assert ids([outcome(0), outcome(2), outcome(3)]) == post.settled
        assert 1 == journal.waiting
        post.refused.clear()
        assert await journal.flush(ASIDE_S + 1)
        assert outcome(1).head.job_id == post.settled[-1]

    run(test())


def test_a_message_that_sqs_does_not_take_waits_while_outcomes_go_out():
    async def test() -> None:
        store, post = DirectStore(), Post(sqs_down=True)
        journal = Journal(store, post, time.time, QUICK)
        many = [outcome(n) for n in range(5)]
        for each in many:
            await journal.put(each)
        assert not await journal.flush(0.05)
        assert ids(many) == post.settled
        assert (5, []) == (journal.waiting, journal.job_ids)
        assert ids(many) == stored(store)
        post.sqs_down = False
        assert await journal.flush(5)
        assert sorted(ids(many)) == sorted(post.let)
        assert [] == stored(store)

    run(test())


def test_what_cannot_be_stored_keeps_its_slot_until_aws_has_it():
    async def test() -> None:
        post = Post(down=True)
        journal = Journal(Broken(), post, time.time, QUICK)
        putting = asyncio.create_task(journal.put(outcome()))
        await asyncio.sleep(0.05)
        assert not putting.done()
        assert 1 == journal.waiting
        post.down = False
        await putting
        assert ids([outcome()]) == post.settled

    run(test())


def test_an_unexpected_error_loses_no_outcome():
    async def test() -> None:
        class Defective(Post):
            async def settle(self, outcome: OutcomeRecord) -> OutcomeTransition | None:
                if not self.settled:
                    self.settled.append("defect")
                    raise ZeroDivisionError
                return await super().settle(outcome)

        journal = Journal(DirectStore(), Defective(), time.time, QUICK)
        await journal.put(outcome())
        assert await journal.flush(ASIDE_S + 1)

    run(test())


def test_what_this_version_cannot_read_stays_and_stops_nobody():
    async def test() -> None:
        store = DirectStore()
        await store.create([StateRecord(KIND, "000000000000001.x.1", 1, '{"way": 1}')])
        journal = Journal(store, Post(), time.time, QUICK)
        assert [] == await journal.recover()
        await journal.put(outcome())
        assert await journal.flush(5)
        assert 1 == len(store.backend.list(KIND, None, 25, time.time())[0])

    run(test())


def test_a_state_service_that_forgot_is_told_what_waits():
    async def test() -> None:
        journal = Journal(DirectStore(), Post(down=True), time.time, QUICK)
        await journal.put(outcome())
        store = DirectStore()
        for record in journal.records():
            store.store_later(record)
        assert ids([outcome()]) == stored(store)

    run(test())


@given(
    verdict=st.sampled_from([o for o in Outcome if o is not Outcome.LOST]),
    restartable=st.booleans(),
    deadline=st.sampled_from([None, "2100-01-01T00:00:00Z"]),
    words=st.lists(st.text("äx", min_size=1, max_size=400), min_size=1, max_size=4),
)
def test_an_outcome_reads_back_as_it_was_written(
    verdict: Outcome,
    restartable: bool,
    deadline: str | None,
    words: list[str],
):
    fields = {"deadline": deadline} if deadline else {}
    one = outcome(5, verdict, command=words, restartable=restartable, **fields)
    back = OutcomeRecord.decode(one.encode())
    assert one == back
    assert one.transition.step.encode() == back.transition.step.encode()


def test_the_jitter_of_a_retry_is_decided_once():
    one = outcome(1, Outcome.FAILED)
    assert State.RETRY is one.transition.step.state
    back = OutcomeRecord.decode(one.encode())
    assert (one.transition.hide_s, one.transition.facts.next_at_ms) == (
        back.transition.hide_s,
        back.transition.facts.next_at_ms,
    )
