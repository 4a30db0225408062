"""A group of jobs in memory: its rows, the stream of their changes, and agents that run them."""

import json
import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

from aws_lambda_powertools.logging import Logger

from functions.sequel.handler import Settings as SequelSettings
from functions.sequel.handler import build as build_sequel
from joblane.aws.clients import Clients
from joblane.aws.job.ends import read_end
from joblane.aws.job.groups import GroupStore
from joblane.aws.queue.lanes import Lanes
from joblane.deployment.names import inbox_name
from joblane.group.array import Indices
from joblane.group.record import Group, MemberOf, begin_page, cancel_group, note_placed, roll
from joblane.group.states import state_of
from joblane.job.head import Head, make_head
from joblane.job.moves import AttemptFacts
from joblane.service.group.members import Members
from joblane.service.group.restart import GroupRestart
from joblane.service.group.settlement import GroupSettlement
from joblane.service.job.operations import Operations
from joblane.state.lifecycle import ENDED, Outcome, State
from joblane.state.timeline import Step
from joblane.testing.clock import Clock
from joblane.testing.inline import Inline
from joblane.testing.memory.sqs import Direct, Queues, Sqs
from joblane.testing.memory.stream import JobsStream, Record
from tests.support.aws import DESCRIPTOR, NAME, configure
from tests.support.dynamodb import Dynamo, Tables
from tests.support.jobs import JOB, named, submission
from tests.support.network import Faults, Killed

NOW = 1_800_000_000.0
NOW_MS = int(NOW * 1000)
FIRST = "01ARZ3NDEKTSV4RRFFQ69G5000"
FAILED = (State.FAILED, State.DEAD)


@cache
def _id(index: int) -> str:
    """The id of a member's job."""
    return Group(0, FIRST).id_of(index)


def place_left(clients: Clients, job_id: str, now: float) -> None:
    """What `sequel` does when the group's row comes, until all members are placed."""
    row = {"goes_on": {"N": "1"}}
    record = {
        "eventName": "MODIFY",
        "dynamodb": {
            "Keys": {"job_id": {"S": job_id}, "sk": {"S": "JOB"}},
            "NewImage": {"group": {"M": row}},
        },
    }
    build_sequel(configure(SequelSettings), clients, lambda: now).handle([record])


class GroupWorld:
    """One group, and everything that follows from its members."""

    def __init__(self, seed: int = 1) -> None:
        self.rng = random.Random(seed)
        self.left = 0
        """Calls until the process is killed; 0 for never."""
        self.calls: Counter[str] = Counter()
        """Reads and writes of the process, by operation; of a batch, its items."""
        self.meddle: Callable[[], object] = lambda: None
        """What others do between two calls of the process."""
        tables = Tables()
        self._jobs = tables.rows[DESCRIPTOR.jobs_table]
        self._seen: tuple[object, Head | None] = None, None
        """The group's row, and the job that was read of it."""
        self.stream = JobsStream(tables, Clock(1_800_000_000.0))
        calm: Any = Dynamo(tables, lambda _operation, make: make(False))
        self.rows = GroupStore(calm, DESCRIPTOR.jobs_table)
        """The table as nobody disturbs it."""
        self.inboxes = Queues(random.Random(1), lambda: NOW, late_s=0)
        dynamodb: Any = Dynamo(tables, self._call)
        sqs: Any = Sqs(self.inboxes, Direct(), Faults(random.Random(1), 0.0))
        self.store = GroupStore(dynamodb, DESCRIPTOR.jobs_table)
        self.lanes = Lanes(sqs, DESCRIPTOR.queue_url_prefix, NAME)
        self.members = Members(self.store, self.lanes, DESCRIPTOR.retention, pool=Inline)
        self.operations = Operations(self.store, self.lanes, DESCRIPTOR.retention)
        self.settlement = GroupSettlement(
            self.store,
            self.members.place,
            self.operations.send,
            DESCRIPTOR.retention,
            self.rng,
            Logger("quiet", level="CRITICAL"),
            lambda: NOW,
        )
        self.restarts = GroupRestart(
            self.store, self.settlement, self.operations.send, DESCRIPTOR.retention
        )

    def _call(self, operation: str, make: Callable[[bool], Any]) -> Any:
        """A call of the process to DynamoDB; before it, others may do something."""
        meddle, left = self.meddle, self.left
        self.meddle, self.left = (lambda: None), 0
        meddle()
        self.meddle, self.left = meddle, left
        answer = make(False)
        self.calls[operation] += 1
        if operation == "batch_get_item":
            self.calls["items"] += sum(map(len, answer["Responses"].values()))
        self.left -= 1
        if self.left == 0:
            raise Killed
        return answer

    def is_killed(self, call: Callable[[], object], after: int) -> bool:
        """Call, and be killed after so many calls to DynamoDB; whether it came to that."""
        self.left = after
        try:
            call()
        except Killed:
            return True
        finally:
            self.left = 0
        return False

    # --- how it begins

    def submit(self, members: int, **spec: Any) -> Head:
        """Put a group and begin its first members, without placing them."""
        for index in range(members):
            self.inboxes.make(DESCRIPTOR.queue_url_prefix + inbox_name(NAME, f"web-{index}"))
        head = make_head(JOB, "acme", submission(target="_all", **spec), NOW_MS)
        most = head.spec.max_concurrency
        group = Group(members, FIRST, begun_ms=NOW_MS)
        group = begin_page(group) if most is None else roll(group, {}, most, None).group
        self.rows.put_roster(group, [f"web-{n}" for n in range(members)], int(NOW) + 9_999_999)
        step = Step(State.PROCESSING, NOW_MS, 0, group.reason)
        self.rows.put_new(replace(head, state=step.state, timeline=(step,), group=group))
        return self.head

    def submit_array(self, members: int, **spec: Any) -> Head:
        """Put an array, and begin its first members, without placing them."""
        self.inboxes.make(DESCRIPTOR.lane_url("default", "default"))
        head = make_head(JOB, "acme", submission(array={"size": members}, **spec), NOW_MS)
        most = head.spec.max_concurrency
        group = Group(members, FIRST, begun_ms=NOW_MS, array=Indices())
        group = begin_page(group) if most is None else roll(group, {}, most, None).group
        step = Step(State.PROCESSING, NOW_MS, 0, group.reason)
        self.rows.put_new(replace(head, state=step.state, timeline=(step,), group=group))
        return self.head

    def stop(self, why: str) -> None:
        """Somebody cancels what has not begun."""
        head = self.head
        self.rows.write_group(head, replace(head, group=cancel_group(self.group, why)))

    def lane_jobs(self) -> list[str]:
        """Jobs of the messages in the lane of an array."""
        entries = self.inboxes.entries[DESCRIPTOR.lane_url("default", "default")].values()
        return [json.loads(entry.body)["job_id"] for entry in entries]

    def expand(self) -> None:
        """Place what is begun, then begin the next page."""
        head = self.head
        if head.ended:
            return
        group = head.group or Group(0, FIRST)
        if group.placed < group.begun:
            self.place(head, range(group.placed, group.begun))
        after = note_placed(group, group.begun)
        if head.spec.max_concurrency is None:
            after = begin_page(after)
        if after != group:
            self.rows.write_group(head, replace(head, group=after))

    def begin_all(self, members: int, **spec: Any) -> Group:
        """Put a group with all its members."""
        self.submit(members, **spec)
        while self.group.placed < (self.group.begun if "max_concurrency" in spec else members):
            self.expand()
        return self.group

    def place(self, head: Head, indices: Sequence[int]) -> None:
        """Put rows of members, and send their messages."""
        self.members.place(head, indices, NOW_MS)

    def take_sent(self) -> list[int]:
        """Members whose messages were sent since the last call, once for each message."""
        prefix = DESCRIPTOR.queue_url_prefix + inbox_name(NAME, "web-")
        found: list[int] = []
        for url, entries in self.inboxes.entries.items():
            found += [int(url.removeprefix(prefix))] * len(entries)
            entries.clear()
        return sorted(found)

    # --- what is seen

    @property
    def head(self) -> Head:
        """The group's job."""
        row, (seen, head) = self._jobs[JOB, "JOB"], self._seen
        if row is not seen:
            head = self.rows.get(JOB)
            self._seen = row, head
        assert head is not None
        return head

    @property
    def group(self) -> Group:
        """The group."""
        group = self.head.group
        assert group is not None
        return group

    def member(self, index: int) -> Head:
        """The job of a member."""
        head = self.rows.get(self.group.id_of(index))
        assert head is not None
        return head

    def state(self) -> State:
        """The group's state."""
        return self.head.state

    def again(self) -> tuple[int, ...]:
        """Members that are to be retried."""
        return self.group.again

    def states(self) -> dict[int, State]:
        """The members that have rows."""
        group = self.group
        of = _id if group.first == FIRST else group.id_of
        rows = {index: self._jobs.get((of(index), "JOB")) for index in range(group.begun)}
        return {index: State(row["state"]["S"]) for index, row in rows.items() if row is not None}

    def open(self) -> list[int]:
        """Members that have rows and have not ended."""
        return [index for index, state in self.states().items() if state not in ENDED]

    def drop_row(self, index: int) -> None:
        """DynamoDB deletes the row of a member that has expired."""
        self._jobs.pop((self.group.id_of(index), "JOB"), None)

    def truth(self) -> State:
        """The group's state, from its members' rows alone."""
        states, group = self.states(), self.group
        found = Counter(states.values())
        if group.stop is not None:
            found[group.stop.state] += group.members - group.begun
        if group.again or any(state not in ENDED for state in found):
            return State.PROCESSING
        return state_of(found, group.members)

    # --- what happens

    def end(self, index: int, state: State = State.COMPLETED, result: str | None = None) -> None:
        """An agent runs a member to its end."""
        head = self.rows.claim(named(self.group.id_of(index)), f"web-{index}", NOW_MS)
        step = Step(state, NOW_MS + 1, head.attempt, "as the test wants")
        expires_at = int(NOW) + 999_999
        facts = AttemptFacts(Outcome.SUCCEEDED, expires_at=expires_at, result=result)
        self.rows.settle(head, step, facts)

    def deliver(self, records: Sequence[Record] | None = None) -> None:
        """Handle records as the function `sequel` does: one settlement of the group."""
        records = self.stream.take() if records is None else records
        ends = [end for record in records if isinstance(end := read_end(record), MemberOf)]
        if ends:
            self.settlement.settle(JOB, {end.index for end in ends})

    def retry(self, index: int) -> Head:
        """Retry one member."""
        head = self.rows.get(self.group.id_of(index))
        assert head is not None
        return self.restarts.one(head, "retried", NOW_MS, exact=False)

    def look(self) -> None:
        """What requeue does for a group that is due."""
        self.settlement.settle(JOB, range(self.group.begun))
