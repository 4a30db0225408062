"""What must hold of every job in a world, whatever happened to it."""

from dataclasses import dataclass, field
from itertools import pairwise

from joblane.aws.key.keys import StoredKey
from joblane.condition.state import Phase
from joblane.job.head import Head
from joblane.job.message import Message, NotOurs
from joblane.state.lifecycle import OPERATORS, TABLE, TRANSITIONS, State
from joblane.state.timeline import Step
from joblane.testing.memory.evaluation import Item
from tests.support.aws import DESCRIPTOR
from tests.support.fleet import inbox
from tests.support.jobs import check_index
from tests.support.network import LATE_S
from tests.support.world import SKEW_S, World, told

AGAIN = {(source, to) for (source, event), to in TABLE.items() if event in OPERATORS}
"""What an operator may do to a job that has ended."""


@dataclass
class Promises:
    """Looks at all jobs, and remembers how it saw them."""

    world: World
    accepted: set[str] = field(default_factory=set)
    deleted: set[str] = field(default_factory=set)
    """Jobs whose deletion was asked for; they may be gone."""
    seen: dict[str, Head] = field(default_factory=dict)
    _items: dict[str, Item] = field(default_factory=dict)
    """The items of which `seen` was read."""

    def heads(self) -> dict[str, Head]:
        """Every job in the table; only those whose items were replaced are read again."""
        rows = self.world.tables.rows[DESCRIPTOR.jobs_table]
        items = {job_id: item for (job_id, sk), item in rows.items() if sk == "JOB"}
        known = {
            job_id: head
            for job_id, head in self.seen.items()
            if items.get(job_id) is self._items[job_id] and "spec" in self._items[job_id]
        }
        names = sorted(items.keys() - known.keys())
        check_index(items[name] for name in names)
        new = self.world.jobs.heads(names, consistent=True)
        known |= {head.job_id: head for head in new}
        self._items = items
        return dict(sorted(known.items()))

    def look(self) -> None:
        """Check all jobs as they are now."""
        heads = self.heads()
        lost = self.accepted - self.deleted - set(heads)
        assert not lost, f"accepted and gone: {lost}"
        messages = self._messages(heads)
        listed = self._read_listed()
        cared_for = self.world.pace.alive()
        for head in heads.values():
            self._history(head)
            self._limits(head)
            if not head.ended:
                waits_for = listed.get(head.job_id, set()) & cared_for
                reached = head.job_id in messages or bool(waits_for) or self._wakes(head)
                # A waiting job is reached by its key, one that has just got its slot by the stream.
                reached = reached or head.state is State.WAITING or self.world.follows(head)
                assert reached, f"nobody will ever see {head.job_id} again: {told(head)}"
                # The inbox of an instance that has ended is gone, and requeue ends its jobs.
                own = None if head.assigned is None else inbox(head.assigned)
                gone = own is not None and own not in self.world.queues.entries
                if head.state is State.BLOCKED and head.job_id not in messages and not gone:
                    assert head.condition in waits_for, f"{head.job_id} is in no list"
        self._running(heads)
        self._slots(heads)
        self.seen = heads

    def _running(self, heads: dict[str, Head]) -> None:
        """What runs under a lease is what the table says: nobody else may end or have it."""
        for agent in self.world.agents:
            for job in agent.running if agent.holds_lease else ():
                mine = job.head
                head = heads.get(mine.job_id)
                assert head is not None, f"{mine.job_id} runs and is gone"
                holds = (head.state, head.epoch) == (State.ACTIVE, mine.epoch)
                assert holds, f"{agent.name} runs what is not its own: {told(head)}"

    def keys_of_jobs(self) -> list[StoredKey]:
        """Every key that a job has."""
        names = {(head.tenant, head.key) for head in self.seen.values() if head.key is not None}
        return [self.world.key(tenant, name) for tenant, name in sorted(names, key=str)]

    def _slots(self, heads: dict[str, Head]) -> None:
        """Who runs or is to run has a slot, who waits is in its key, and no key exceeds it."""
        states = {}
        for head in heads.values():
            if head.key is None or head.ended or head.state is State.SCHEDULED:
                continue
            if head.key not in states:
                states[head.key] = self.world.key(head.tenant, head.key).state
            state = states[head.key]
            if head.state is State.WAITING:
                assert head.job_id in {*state.active, *state.queued}, f"is in no key: {told(head)}"
            else:
                slot = state.active.get(head.job_id)
                assert slot == head.slot is not None, f"has no slot: {told(head)}, {state}"
        for state in states.values():
            assert len(state.active) <= state.limits.max_active, state
            assert len(set(state.queued)) == len(state.queued), state

    def _history(self, head: Head) -> None:
        """The timeline only grows, along the table's arrows; who has ended stays so."""
        states = [step.state for step in head.timeline]
        moves = pairwise(head.timeline)
        assert all(b.state in TRANSITIONS[a.state] or _edits(a, b) for a, b in moves), (
            head.job_id,
            states,
        )
        folded = sum((step.times or 1) - 1 for step in head.timeline)
        assert states.count(State.ACTIVE) + folded == head.epoch, f"lost a claim: {told(head)}"
        for a, b in pairwise(head.timeline):
            late_ms = (SKEW_S + LATE_S) * 1000  # steps bear the time at which they were sent
            assert b.at_ms >= a.at_ms - late_ms, f"went back in time: {told(head)}"
        before = self.seen.get(head.job_id)
        if before is None:
            return
        old = before.timeline
        for was, now in zip(old, head.timeline, strict=False):
            if now.times > was.times:  # what blocked again takes the place of the lines between
                break
            assert now == was, f"rewrote its history: {told(head)}"
        if before.ended and len(states) > len(old):
            assert (before.state, states[len(old)]) in AGAIN, f"{head.job_id} left {before.state}"

    def _limits(self, head: Head) -> None:
        states = [step.state for step in head.timeline]
        restarts = {State.PENDING, State.WAITING}
        again = sum((a, b) in AGAIN and b in restarts for a, b in pairwise(states))
        assert head.attempt <= head.spec.retry.max_attempts, f"{head.job_id}: too many attempts"
        if not head.spec.restartable:
            starts = self.world.starts.get(head.job_id, 0)
            assert starts <= 1 + again, f"{head.job_id} started {starts} times"

    def _messages(self, heads: dict[str, Head]) -> set[str]:
        """The jobs that have a message which starts them: one from before an edit does not."""
        found = set()
        for body in self.world.queues.bodies():
            try:
                message = Message.decode(body)
            except NotOurs:
                continue  # a command in an inbox
            head = heads.get(message.job_id)
            if head is not None and not message.is_outdated(head):
                found.add(message.job_id)
        return found

    def _read_listed(self) -> dict[str, set[str]]:
        """The conditions that have each job in their list, unless they are closed."""
        listed: dict[str, set[str]] = {}
        for condition in {str(e.input["condition"]) for e in self.world.pace.executions.values()}:
            row = self.world.conditions.get(condition)
            if row is not None and row.phase is not Phase.CLOSED:
                for entry in self.world.conditions.waiting(condition, 1000):
                    listed.setdefault(entry.job_id, set()).add(condition)
        return listed

    def _wakes(self, head: Head) -> bool:
        """Whether its row in `wake` moves it on: to its lane, or to its end once that is due.

        Before its deadline a job that waits needs more than the row that will expire it.
        """
        if head.wake_at_ms is None:
            return False
        if head.assigned is not None:
            return True  # then requeue looks whether its agent is there, again and again
        if head.state is State.ACTIVE:
            return False
        if head.wake_at_ms == head.deadline_ms:
            return head.deadline_ms <= (self.world.clock.now + SKEW_S) * 1000
        return head.state in {State.SCHEDULED, State.PENDING, State.RETRY}


def _edits(before: Step, after: Step) -> bool:
    """Whether a step is an edit: the job stays where it is."""
    return before.state is after.state and after.reason.startswith("edited by ")
