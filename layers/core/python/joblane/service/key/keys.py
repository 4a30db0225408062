"""Show the keys of a tenant's jobs: who has their slots, and who waits for one."""

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise

from joblane.aws.fleet.agents import AgentStore
from joblane.aws.job.jobs import JobStore
from joblane.aws.key.keys import KeyStore, StoredKey
from joblane.contract.keys import SHOWN_QUEUED, KeyDetail, KeyHolder, KeyView, KeyWaiter
from joblane.contract.problems import NotFound
from joblane.formats.times import rfc3339
from joblane.job.head import Head
from joblane.key.segments import KeyName
from joblane.state.lease import Heartbeat
from joblane.state.lifecycle import ENDED, State
from joblane.state.timeline import waits_since

EXAMINED_MAX = 500
"""Rows that one request for a list examines. Idle keys have a row for a day, and are not listed."""

_BEFORE_SLOT = ENDED | {State.WAITING, State.SCHEDULED}
"""States after which a job that moves on has a new slot."""

_DELETED = "deleted"

_MOVED = "started again under another key"


@dataclass(frozen=True)
class KeyReader:
    """Reads keys as their tenant sees them."""

    keys: KeyStore
    jobs: JobStore
    agents: AgentStore
    now_ms: Callable[[], int]

    def page(
        self, tenant: str, scope: str, *, limit: int, after: str | None
    ) -> tuple[list[KeyView], str | None]:
        """Read a page of the keys in use of a scope; also returns where to continue."""
        found: list[KeyView] = []
        for _ in range(EXAMINED_MAX // limit):
            stored, after = self.keys.page(tenant, scope, limit=limit - len(found), after=after)
            found += [_view(key) for key in stored if not key.state.idle]
            if after is None or len(found) == limit:
                break
        return found, after

    def find(self, tenant: str, name: KeyName) -> list[KeyView]:
        """Read one key as a list of one, or of none."""
        key = self.keys.get(tenant, name, self.now_ms())
        return [_view(key)] if key.version and not key.state.idle else []

    def detail(self, tenant: str, name: KeyName) -> KeyDetail:
        """Read a key and its jobs. Raises NotFound for one that was not in use for a day.

        Four requests at most, however many jobs wait: the agents of those that run are the last.
        """
        key = self.require(tenant, name)
        state = key.state
        shown = state.queued[:SHOWN_QUEUED]
        # A waiting job that is let go meanwhile is shown as it is now.
        found = self.jobs.heads([*state.holders, *shown])
        heads = {head.job_id: head if head.key == name else None for head in found}
        agents = self._agents(head for head in heads.values() if head is not None)
        return KeyDetail(
            **dict(_view(key)),
            queued_total=state.queued_total,
            replaced=state.replaced,
            stale=state.stale,
            holders=tuple(_holder(job, state.active[job], heads, agents) for job in state.holders),
            queue=tuple(_waiter(job, number, heads) for number, job in enumerate(shown, 1)),
        )

    def _agents(self, heads: Iterable[Head]) -> dict[str, Heartbeat]:
        """The agents of the jobs that run, by name."""
        names = {head.agent for head in heads if head.state is State.ACTIVE and head.agent}
        return {row.name: row for row in self.agents.many(sorted(names))} if names else {}

    def require(self, tenant: str, name: KeyName) -> StoredKey:
        """Read a key. Raises NotFound if it has no row."""
        key = self.keys.get(tenant, name, self.now_ms())
        if not key.version:
            raise NotFound("no job has or had this key within a day")
        return key


def _view(key: StoredKey) -> KeyView:
    state = key.state
    return KeyView(
        type=key.name.scope,
        id=key.name.hash,
        segments=tuple(json.loads(key.segments)),
        active=len(state.active),
        queued=len(state.queued),
        **state.limits.model_dump(),
    )


def _holder(
    job_id: str, slot: int, heads: Mapping[str, Head | None], agents: Mapping[str, Heartbeat]
) -> KeyHolder:
    head = heads.get(job_id)
    runs = head is not None and head.state is State.ACTIVE
    row = agents.get(head.agent or "") if head is not None and runs else None
    return KeyHolder(
        id=job_id,
        slot=slot,
        state=None if head is None else head.state,
        since_at=None if head is None else rfc3339(_slot_ms(head)),
        reason=_reason(job_id, heads),
        agent=None if head is None else head.agent,
        heartbeat_at=None if row is None else rfc3339(row.beat_ms),
        lease_ends_at=None if row is None else rfc3339(row.lease_end_ms),
    )


def _waiter(job_id: str, position: int, heads: Mapping[str, Head | None]) -> KeyWaiter:
    head = heads.get(job_id)
    return KeyWaiter(
        id=job_id,
        position=position,
        state=None if head is None else head.state,
        since_at=None if head is None else rfc3339(waits_since(head.timeline).at_ms),
        reason=_reason(job_id, heads),
    )


def _reason(job_id: str, heads: Mapping[str, Head | None]) -> str:
    head = heads.get(job_id)
    if head is not None:
        return head.reason
    return _MOVED if job_id in heads else _DELETED


def _slot_ms(head: Head) -> int:
    """When a job got its slot: at its submission, or with the step that let it go."""
    steps = head.timeline[:-1] if head.ended else head.timeline
    for before, step in reversed(list(pairwise(steps))):
        if before.state in _BEFORE_SLOT:
            return step.at_ms
    return steps[0].at_ms if steps else head.timeline[0].at_ms
