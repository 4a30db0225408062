"""Find out why a job waits, runs on or has ended: read what its state needs, and explain it.

The number of requests does not depend on how many jobs, agents or messages there are. It is
largest for a job in a lane, 23 beside the job itself: 16 partitions of agents (25 agents of each),
3 lanes, the settings with the shares of limits, the records of the queue's fleets (100 in a
request), one batch of up to a hundred jobs of agents that a limit may stop. All but the last are
made side by side. For a group, those of the first of its members that waits, and two for members.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import KW_ONLY, dataclass, replace
from typing import TYPE_CHECKING

from joblane.aws.condition.conditions import ConditionStore
from joblane.aws.fleet.agents import PER_SHARD, SHARDS, AgentStore
from joblane.aws.fleet.fleet_records import FleetRecords
from joblane.aws.job.jobs import JobStore
from joblane.aws.job.places import JobPlaces, Place
from joblane.aws.key.keys import KeyStore
from joblane.aws.queue.lanes import Lanes
from joblane.aws.queue.moves import QueueMoveStore
from joblane.aws.queue.settings import SettingsStore
from joblane.contract.problems import NotFound
from joblane.contract.queues import MAX_THREADS, settings_view
from joblane.contract.status import DeclaredFleet
from joblane.contract.why import Why, reason_view
from joblane.deployment.limits import Limits
from joblane.deployment.names import LANES, Lane, fleet_name
from joblane.errors import Unavailable
from joblane.fleet.record import FleetRecord
from joblane.formats.times import rfc3339
from joblane.job.head import Head
from joblane.key.request import KeyRequest
from joblane.key.segments import parse_segments
from joblane.queue.settings import UNSET, QueueSettings
from joblane.queue.tenant_shares import TenantShares
from joblane.service.key.reasons import show, to_show
from joblane.service.log import Log
from joblane.service.queue.rules import QueueRules
from joblane.service.why_members import MemberReader
from joblane.state.lease import Heartbeat
from joblane.state.lifecycle import RETRIABLE, State
from joblane.why.capacity import QueueCapacity
from joblane.why.explain import explain, explain_member, summary, summary_of
from joblane.why.members import state_without_row
from joblane.why.situation import (
    Agents,
    Counted,
    Fleet,
    Key,
    Messages,
    Queue,
    Situation,
)
from joblane.why.situation import TenantLimit as RunningLimit

if TYPE_CHECKING:
    from joblane.condition.policies import AnyPolicy

COUNTED = 100
"""Jobs of agents whose tenants and queues are read: one request."""

_AT_ONCE = SHARDS + len(LANES) + 2


@dataclass(frozen=True)
class WhyReader:
    """Says why jobs are where they are."""

    jobs: JobStore
    places: JobPlaces
    agents: AgentStore
    settings: SettingsStore
    moves: QueueMoveStore
    records: FleetRecords
    conditions: ConditionStore
    keys: KeyStore
    lanes: Lanes
    log: Log
    _: KW_ONLY
    fleets: Sequence[DeclaredFleet]
    deployment: str
    rules: QueueRules
    threads: Mapping[str, int]
    """What joblane.toml declares for each queue."""
    limits: Limits
    policy_of: "Callable[[str], AnyPolicy]"
    """Gives the policy of a kind of conditions."""
    now_ms: Callable[[], int]
    """Returns Unix milliseconds."""
    pool: Callable[[int], Executor] = ThreadPoolExecutor
    """Makes an executor of that many workers."""

    @property
    def members(self) -> MemberReader:
        """Reads members of groups."""
        return MemberReader(self.jobs)

    def explain(self, head: Head) -> Why:
        """Say why a job is where it is."""
        situation = self._situation(head, self.now_ms())
        reasons = explain(situation)
        member_of = head.member_of
        return Why(
            id=head.job_id,
            group=None if member_of is None else member_of.group_id,
            index=head.index,
            state=head.state,
            at=rfc3339(situation.now_ms),
            summary=summary(situation, reasons),
            reasons=tuple(map(reason_view, reasons)),
        )

    def explain_member(self, head: Head, number: int, index: int) -> Why:
        """Say why a member of a group is where it is, also one that has not begun.

        Raises NotFound if it has ended, and its row has expired.
        """
        now_ms = self.now_ms()
        if (row := self.members.read(head, number, now_ms)) is not None:
            return self.explain(row)
        state = state_without_row(head, number)
        if state is None:
            raise NotFound(f"the job of index {index} has ended, and its row has expired")
        situation = self._situation(head, now_ms)
        reasons = explain_member(situation, number)
        return Why(
            id=None,
            group=head.job_id,
            index=index,
            state=state,
            at=rfc3339(now_ms),
            summary=summary_of(state, situation, reasons),
            reasons=tuple(map(reason_view, reasons)),
        )

    def _situation(self, head: Head, now_ms: int) -> Situation:
        reads = {
            State.SCHEDULED: self._to_start,
            State.WAITING: self._waiting,
            State.PENDING: self._to_start,
            State.ACTIVE: self._active,
            State.RETRY: self._to_start,
            State.BLOCKED: self._blocked,
            State.PROCESSING: self._processing,
        }
        read = reads.get(head.state)
        if read is None:  # of a job that has ended only its group, which may be to retry it
            parent = self.members.read_group(head) if head.state in RETRIABLE else None
            return Situation(head, now_ms, queue=self._queue(head, UNSET), parent=parent)
        return read(head, now_ms)

    def _to_start(self, head: Head, now_ms: int) -> Situation:
        later = head.next_at_ms is not None and head.next_at_ms > now_ms
        if head.state is State.SCHEDULED or later:
            found = self.settings.get_all([head.queue])
            return Situation(head, now_ms, queue=self._queue(head, found[head.queue]))
        return (
            self._in_lane(head, now_ms)
            if head.assigned is None
            else self._in_inbox(head, head.assigned, now_ms)
        )

    def _in_inbox(self, head: Head, agent: str, now_ms: int) -> Situation:
        found = self.settings.get_all([head.queue])
        queue = self._queue(head, found[head.queue])
        return Situation(head, now_ms, queue=queue, agent=self.agents.get(agent))

    def _in_lane(self, head: Head, now_ms: int) -> Situation:
        if head.queue not in self.rules.tenants:  # it has no lanes and no settings
            return Situation(head, now_ms, queue=self._queue(head, UNSET))
        with self.pool(_AT_ONCE) as pool:
            fleets = pool.submit(self._fleets, head.queue)
            queues = {head.queue: None} | dict.fromkeys(self.rules.open_to(head.tenant))
            settings = pool.submit(self.settings.get_for_agent, queues)
            served = LANES[: LANES.index(head.lane) + 1]
            lengths = {lane: pool.submit(self._messages, head.queue, lane) for lane in served}
            rows, more = self.agents.sample(PER_SHARD, pool)
            found, shares = settings.result()
            lanes = {lane: answer.result() for lane, answer in lengths.items()}
        queue = self._queue(head, found[head.queue])
        limits = self._limit(head, shares)
        # How many agents other tenants have is theirs to know.
        rows = [row for row in rows if not queues.keys().isdisjoint(row.queues)]
        agents = Agents(tuple(rows), more=more)
        capacity = QueueCapacity(head, queue, agents, limits)
        stopped = [row for row in rows if head.queue in row.queues and capacity.counts_jobs(row)]
        return Situation(
            head,
            now_ms,
            queue=queue,
            others=tuple(name for name in queues if self._takes(name, found[name], head)),
            agents=replace(agents, counted=self._count(head, stopped, now_ms)),
            lanes={lane: known for lane, known in lanes.items() if known is not None} or None,
            limits=limits,
            fleets=fleets.result(),
        )

    def _takes(self, queue: str, settings: QueueSettings, head: Head) -> bool:
        """Whether the job could wait in another queue, and would not be held up by a pause."""
        return (
            queue != head.queue
            and queue not in self.rules.retired
            and settings.run_jobs
            and self.rules.why_not(head.tenant, queue, head.spec) is None
        )

    def _fleets(self, queue: str) -> tuple[Fleet, ...] | None:
        """The fleets of a queue with what the scaler last decided for them.

        None for a deployment without fleets: its agents run on machines of their own.
        """
        if not self.fleets:
            return None
        serving = [fleet for fleet in self.fleets if queue in fleet.queues]
        found = self._records([fleet.name for fleet in serving])
        return tuple(
            Fleet(
                fleet.name,
                fleet_name(self.deployment, fleet.name),
                fleet.max_size,
                fleet.instance_types,
                None if found is None else found.get(fleet.name),
                unread=found is None,
            )
            for fleet in serving
        )

    def _records(self, fleets: Sequence[str]) -> Mapping[str, FleetRecord] | None:
        """What the scaler decided; None if it cannot be read, which is not all of an answer."""
        try:
            return self.records.read_all(fleets) if fleets else {}
        except Unavailable:
            self.log.exception("records of fleets are unknown")
            return None

    def _queue(self, head: Head, settings: QueueSettings) -> Queue:
        """The queue of a job, without names of another tenant's operators."""
        declared = self.threads.get(head.queue, MAX_THREADS)  # joblane.toml may have it no more
        named = self.rules.tenants.get(head.queue, ())
        view = settings_view(settings, declared, head.tenant, named)
        to = None if head.ended else self.rules.retired.get(head.queue)
        return Queue(
            settings=UNSET if settings is UNSET else replace(settings, changed_by=view.changed_by),
            threads=declared,
            maxima=self.rules.maxima.get(head.queue, ()),
            declared=head.queue in self.rules.open_to(head.tenant),
            gone=head.queue not in self.rules.tenants,
            moves_to=to,
            misfit=None if to is None else self.rules.why_not(head.tenant, to, head.spec),
            next_move_ms=None if to is None else self._next_move_ms(head.queue, to),
            may_change=view.may_change,
        )

    def _next_move_ms(self, queue: str, to: str) -> int | None:
        """When the jobs of a retired queue are looked at next; None: soon."""
        found = self.moves.read([queue]).get(queue)
        return None if found is None or found.to != to else found.due_ms

    def _limit(self, head: Head, shares: TenantShares) -> RunningLimit:
        return RunningLimit(self.limits.of(head.tenant).jobs_running, shares)

    def _messages(self, queue: str, lane: Lane) -> Messages | None:
        try:
            found = self.lanes.lane(queue, lane).lengths()
        except Unavailable:
            self.log.exception("the length of a lane is unknown")
            return None
        return Messages(found.visible, found.in_flight, found.delayed)

    def _count(self, head: Head, agents: Iterable[Heartbeat], now_ms: int) -> Mapping[str, Counted]:
        """Count the jobs of agents, of as many as `COUNTED` jobs allow."""
        chosen: list[Heartbeat] = []
        left = COUNTED
        for row in agents:
            if row.alive(now_ms) and len(row.jobs) <= left:
                chosen.append(row)
                left -= len(row.jobs)
        ids = [job_id for row in chosen for job_id in row.jobs]
        places = self.places.read(ids) if ids else {}
        return {row.name: _count(head, row, places) for row in chosen}

    def _active(self, head: Head, now_ms: int) -> Situation:
        agent = None if head.agent is None else self.agents.get(head.agent)
        return Situation(head, now_ms, agent=agent)

    def _waiting(self, head: Head, now_ms: int) -> Situation:
        queue = self._queue(head, UNSET)
        return Situation(head, now_ms, queue=queue, key=self._key(head, now_ms))

    def _processing(self, head: Head, now_ms: int) -> Situation:
        found = self.members.read_open(head)
        if found is None:
            return Situation(head, now_ms)
        waiting = None if found.waiting is None else self._situation(found.waiting, now_ms)
        return Situation(head, now_ms, members=found.members, waiting=waiting)

    def _key(self, head: Head, now_ms: int) -> Key | None:
        if head.key is None:
            return None
        stored = self.keys.get(head.tenant, head.key, now_ms)
        if not stored.version:
            return Key(stored.state, head.key.hash, "")
        segments = parse_segments(stored.segments)
        request = KeyRequest(head.key, segments, stored.state.limits)
        first = [job_id for job_id in stored.state.holders if job_id != head.job_id][:1]
        holders = [
            holder
            for holder in (self.jobs.heads(first) if first else ())
            if holder.visible_to(head.tenant, now_ms / 1000)
        ]
        return Key(stored.state, show(request), to_show(request), tuple(holders))

    def _blocked(self, head: Head, now_ms: int) -> Situation:
        queue = self._queue(head, UNSET)
        if head.condition is None:
            return Situation(head, now_ms, queue=queue)
        kind = head.condition.partition(":")[0]
        return Situation(
            head,
            now_ms,
            queue=queue,
            condition=self.conditions.get(head.condition),
            most_s=self.policy_of(kind).most_s,
        )


def _count(head: Head, row: Heartbeat, places: Mapping[str, Place]) -> Counted:
    own = [places[job_id] for job_id in row.jobs if job_id in places]
    return Counted(
        of_queue=sum(place.queue == head.queue for place in own),
        of_tenant=sum(place.tenant == head.tenant for place in own),
    )
