"""A model of an agent's lease and scale-in around their real decisions.

Real are: when a lease is lost, since when an agent is idle, whether it leaves and why, and what it
asks of its group. The order of leaving is that of `ec2_agent/scale_in/scale_in.py`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ec2_agent.presence.lease import lease_lost
from ec2_agent.scale_in.scale_in import SETTLE_S
from joblane.fleet.idle import (
    Idleness,
    IdleSituation,
    LeaveReason,
    LeavingPolicy,
    Look,
    decrements,
    why_leave,
)
from joblane.state.lease import HEARTBEAT_S, Heartbeat, Mode

if TYPE_CHECKING:
    from scripts.simulation.agent import Agent


@dataclass(eq=False)
class Presence:
    """See the module. It looks whether it is time to leave with every heartbeat, so each 10 s."""

    agent: "Agent"
    reason: LeaveReason | None = None
    """Why it is leaving; None: it is not."""
    draining: bool = False
    """Whether its instance ends, or Auto Scaling has said so."""

    def __post_init__(self) -> None:
        self._clock, self._world = self.agent.world.clock, self.agent.world
        self.began = self._clock.now
        self._since_ms = self._clock.now_ms
        self._renewed = self.began
        self._policy = LeavingPolicy(self._world.idle_s(self.agent.fleet))
        self._idle = Idleness(self.began)
        self._refused: float | None = None
        self._surplus_ms: int | None = None
        self._forgotten_ms: int | None = None
        self._on_empty: Callable[[], None] | None = None
        self._before = (0, 0, 0)
        self._beat()
        self._clock.after(self._clock.rng.uniform(0, HEARTBEAT_S), self._keep_lease)

    @property
    def closed(self) -> bool:
        """Whether it takes no new jobs."""
        return self.draining or self.reason is not None or self._lost

    # Its lease.

    @property
    def _lost(self) -> bool:
        return lease_lost(self._renewed, self._clock.now)

    def _beat(self) -> None:
        """Write its heartbeat, and read from the answer whether it is surplus."""
        agent = self.agent
        if agent.gone or agent.cut_off:
            return
        self._renewed = self._clock.now
        mode: Mode | None = "draining" if self.draining or self.reason is not None else None
        named_ms = self._world.beat(
            Heartbeat(
                name=agent.name,
                since_ms=self._since_ms,
                beat_ms=self._clock.now_ms,
                threads=agent.threads,
                running=agent.total,
                queues=agent.queues,
                isolation="full",
                version="",
                jobs=tuple([job.job_id for job in agent.attempts]),
                labels={},
                mode=mode,
                left=max(0, agent.threads - agent.total),
                taken={queue: count for queue, count in agent.taken.items() if count > 0},
                surplus_ms=self._surplus_ms,
            )
        )
        if self._surplus_ms is None and named_ms is not None and named_ms != self._forgotten_ms:
            self._surplus_ms = named_ms

    def _keep_lease(self) -> None:
        agent = self.agent
        if agent.gone:
            return
        if self._lost:
            agent.abandon_all()
        if not agent.cut_off:
            self._beat()
            self._look()
            agent.decide()
        self._clock.after(HEARTBEAT_S, self._keep_lease)

    # Leaving by itself.

    def _look(self) -> None:
        """Decide whether to leave now."""
        agent, now = self.agent, self._clock.now
        look = Look(
            at_work=agent.total > 0,
            able=not self.closed,
            begun=agent.begun,
            failed=agent.failed,
            stalled=False,  # a poll of the model ends in time, or is refused
        )
        self._idle = self._idle.after(look, now)
        if self.reason is not None or self.draining or not self._world.scaling.protects:
            return
        situation = IdleSituation(
            age_s=now - self.began,
            idle_for_s=now - self._idle.since,
            surplus=self._surplus_ms is not None,
            refused_s_ago=None if self._refused is None else now - self._refused,
        )
        self.reason = why_leave(self._policy, situation)
        if self.reason is not None:
            self._before = self._seen()
            self._close(self._announce)

    def _seen(self) -> tuple[int, int, int]:
        return self.agent.begun, self.agent.received, self.agent.failed

    def _close(self, on_empty: Callable[[], None]) -> None:
        """Take no new jobs, and call `on_empty` when nothing is left."""
        self._beat()
        self._on_empty = on_empty
        self.agent.open_no_more()
        self.look_empty()

    def look_empty(self) -> None:
        """Go on with leaving or draining if nothing is left here; stay if a message came."""
        if self._on_empty is None:
            return
        if self.reason is not None and not self.reason.waits and self._seen() != self._before:
            self._stay()
        elif self.agent.empty:
            done, self._on_empty = self._on_empty, None
            done()

    def _announce(self) -> None:
        """Say that it leaves, wait for what was sent before that, and ask."""
        self._beat()
        self._clock.after(SETTLE_S, self._ask)

    def _ask(self) -> None:
        """Ask the group to end the instance, unless it drains by now."""
        agent, reason = self.agent, self.reason
        if reason is None or agent.gone:
            return
        if agent.cut_off:
            self._stay()
            return
        for decrement in decrements(reason):
            if self._world.groups[agent.fleet].terminate(agent.name, decrement=decrement):
                self.draining = True
                self._world.goodbye(agent)
                return
        self._world.refused_leaves += 1
        self._refused = self._clock.now
        if reason is LeaveReason.SURPLUS:
            self._forgotten_ms, self._surplus_ms = self._surplus_ms, None
        self._stay()

    def _stay(self) -> None:
        """Take jobs again."""
        self.reason = self._on_empty = None
        self._beat()
        self.agent.decide()

    # Drained by others.

    def drain(self, limit_s: float, on_empty: Callable[[], None]) -> None:
        """Take no more jobs; interrupt those that still run in `limit_s`; then `on_empty`."""
        if self.draining or self.agent.gone:
            return
        self.draining, self.reason = True, None
        self._clock.after(limit_s, self.agent.interrupt_all)
        self._close(on_empty)
