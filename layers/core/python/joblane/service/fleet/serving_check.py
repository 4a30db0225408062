"""Warn of submissions that no live agent can serve now.

A function reads the summary of agents at most once a minute, before the first submission of that
minute: half a read unit, however many submissions there are. Only if that says that nobody can
serve a job are the agents themselves read, at most every 10 s (16 queries of up to 25 agents, some
8 read units): an agent may have come in the last minute.

    requeue (every minute)       settings                   submission
    reads agents
    writes, if it changed --->   summary          ------>   once a minute
                                 agents           ------>   to be sure, before it warns
"""

from collections.abc import Callable, Mapping
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import KW_ONLY, dataclass, field

from joblane.aws.fleet.agents import PER_SHARD, SHARDS, AgentStore
from joblane.aws.queue.settings import SettingsStore
from joblane.errors import Unavailable
from joblane.fleet.serving import Serving, describe_missing
from joblane.job.head import Head
from joblane.service.log import Log
from joblane.state.lifecycle import State

READ_AGAIN_MS = 60_000
"""How long a summary is used: requeue writes it every minute at most."""

FRESH_MS = 10_000
"""Nobody is warned by agents that were read longer ago than this: heartbeats are as old. A summary
that was not there, or could not be read, is asked for again after it."""

_NOW = frozenset({State.PENDING, State.WAITING})
"""States of new jobs that are not for later."""


@dataclass(slots=True)
class _Known:
    """What was read last; None if it is not known."""

    serving: Serving | None
    read_ms: int


@dataclass
class ServingCheck:
    """Says of accepted jobs whether a live agent can serve them."""

    settings: SettingsStore
    agents: AgentStore
    now_ms: Callable[[], int]
    """Returns Unix milliseconds."""
    log: Log
    _: KW_ONLY
    fleets: Mapping[str, tuple[str, ...]]
    """The queues that each fleet serves."""
    pool: Callable[[int], Executor] = ThreadPoolExecutor
    """Makes an executor of that many workers."""
    _summary: _Known | None = field(default=None, init=False)
    _sample: _Known | None = field(default=None, init=False)

    def look(self) -> None:
        """Read the summary if that is due. A failure is logged: then nobody is warned."""
        now_ms, known = self.now_ms(), self._summary
        oldest_ms = FRESH_MS if known is None or known.serving is None else READ_AGAIN_MS
        if known is None or now_ms - known.read_ms >= oldest_ms:
            self._summary = _Known(self._read(self.settings.serving), now_ms)

    def warning(self, head: Head) -> str | None:
        """Return why no live agent can serve a job now; None if one can, or it is not known.

        Of jobs that only one agent may run, of broadcasts and of those that start later it says
        nothing.
        """
        known = None if self._summary is None else self._summary.serving
        waits = head.state in _NOW or (head.group is not None and head.group.array is not None)
        if known is None or not waits or head.assigned is not None or head.ended:
            return None
        if head.spec.makes_group and head.spec.array is None:
            return None
        if known.missing(head.queue, head.spec, head.own_disk_mb) == ():
            return None
        sure = self._look_at_agents()
        if sure is None:
            return None
        has_fleet = any(head.queue in queues for queues in self.fleets.values())
        missing = sure.missing(head.queue, head.spec, head.own_disk_mb)
        return describe_missing(head.queue, missing, fleets=has_fleet)

    def _look_at_agents(self) -> Serving | None:
        """The agents as they are; None if they cannot be read, or not all of them."""
        now_ms = self.now_ms()
        if self._sample is None or now_ms - self._sample.read_ms >= FRESH_MS:
            self._sample = _Known(self._read(lambda: self._sample_agents(now_ms)), now_ms)
        return self._sample.serving

    def _sample_agents(self, now_ms: int) -> Serving | None:
        with self.pool(SHARDS) as pool:
            rows, more = self.agents.sample(PER_SHARD, pool)
        return None if more else Serving.of(rows, now_ms)

    def _read(self, read: Callable[[], Serving | None]) -> Serving | None:
        try:
            return read()
        except Unavailable:
            self.log.exception("nobody is warned: what agents can give cannot be read")
            return None
