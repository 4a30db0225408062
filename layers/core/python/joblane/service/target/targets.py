"""Choose the agents of jobs with a target, and make groups, when they are submitted or due.

A `host:` job is assigned to its agent, or skipped. A broadcast becomes a group
(`joblane.service.group.expansion`), or is skipped if no agent matches.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import KW_ONLY, dataclass, replace

from joblane.aws.fleet.agents import AgentStore
from joblane.formats.ids import ids_from
from joblane.group.array import MOST_MEMBERS
from joblane.group.record import Group
from joblane.job.head import Head, waits
from joblane.job.spec import is_broadcast, parse_valid_target
from joblane.service.group.expansion import Expansion
from joblane.state.lease import Heartbeat
from joblane.state.lifecycle import State
from joblane.state.timeline import Step
from joblane.target.choose import TargetChoice, choose, find_host, why_not
from joblane.target.match import Target, TooManyMembers

READS_AT_ONCE = 16
"""Threads that read the agents, a partition each."""


@dataclass(frozen=True)
class Targets:
    """Chooses agents."""

    agents: AgentStore
    expansion: Expansion
    random_bits: Callable[[int], int]
    """Makes ids unique."""
    _: KW_ONLY
    pool: Callable[[int], Executor] = ThreadPoolExecutor
    """Makes an executor of that many workers."""

    def refusal(self, head: Head, now_ms: int) -> tuple[str, str | None]:
        """The agent that a `host:` job names, and why that takes no jobs of its queue."""
        name = _host(head)
        return name, why_not(self.agents.get(name), name, head.queue, now_ms)

    def name_hosts(self, heads: Sequence[Head]) -> dict[str, Head | str]:
        """Write out targets that are a name alone, `w1`, as `host:w1`; reads all agents once.

        Returns the jobs by their ids; a text in place of one says why it names no agent.
        """
        with self.pool(READS_AT_ONCE) as pool:
            rows = self.agents.read_all_at_once(pool)
        return {head.job_id: _name_host(head, rows) for head in heads}

    def assign(self, heads: Sequence[Head], now_ms: int) -> list[Head]:
        """Assign new `host:` jobs to their agents, or skip them; other jobs stay as they are.

        One read for each hundred agents that are named.
        """
        names = sorted({_host(head) for head in heads if waits_for_host(head)})
        known = {row.name: row for row in self.agents.many(names)} if names else {}
        return [
            self._assign(head, known.get(_host(head)), now_ms) if waits_for_host(head) else head
            for head in heads
        ]

    def choose(self, head: Head, now_ms: int) -> TargetChoice:
        """Choose the agents of a broadcast; reads all agents. Raises TooManyMembers."""
        with self.pool(READS_AT_ONCE) as pool:
            rows = self.agents.read_all_at_once(pool)
        choice = choose(rows, _target(head), head.queue, now_ms)
        if len(choice.agents) > MOST_MEMBERS:
            raise TooManyMembers(
                f"matches {len(choice.agents)} agents; a group has at most {MOST_MEMBERS}"
            )
        return choice

    def group(self, head: Head, agents: tuple[str, ...], now_ms: int) -> Head:
        """Make the group of a broadcast, and write its roster; the group is put by the caller."""
        first = ids_from(now_ms, self.random_bits(80), len(agents))
        return self.expansion.write_down(head, agents, first, now_ms)

    def array(self, head: Head, now_ms: int) -> Head:
        """Make the group of an array; it is put by the caller."""
        jobs = 1 if head.spec.array is None else head.spec.array.jobs
        first = ids_from(now_ms, self.random_bits(80), jobs)
        return self.expansion.begin_array(head, first, now_ms)

    def processing(self, head: Head, now_ms: int) -> Head:
        """A new group with members, in its first state."""
        why = "" if head.group is None else head.group.reason
        step = Step(State.PROCESSING, now_ms, 0, why)
        return replace(head, state=step.state, timeline=(step,))

    def expand(self, head: Head, *, fresh: bool) -> Head:
        """Place as many members of a group as a request does: a page; `fresh` as for `Expansion`.

        So what is done before an answer does not grow with the group.
        """
        return self.expansion.expand(head, lambda: 0.0, fresh=fresh)

    def make_empty_group(self, head: Head, now_ms: int) -> Head:
        """Make the group of a broadcast that no agent matches; it is skipped by the caller."""
        return replace(head, group=Group(0, ids_from(now_ms, self.random_bits(80), 1)))

    def skip(self, head: Head, why: str, now_ms: int) -> Head:
        """A new job that no agent may run."""
        return replace(
            head,
            state=State.SKIPPED,
            timeline=(Step(State.SKIPPED, now_ms, 0, why),),
            wake_at_ms=None,
            expires_at=self.expansion.retention.expires_at(State.SKIPPED, now_ms),
        )

    def _assign(self, head: Head, agent: Heartbeat | None, now_ms: int) -> Head:
        name = _host(head)
        why = why_not(agent, name, head.queue, now_ms)
        if why is not None:
            return self.skip(head, why, now_ms)
        reply_by_ms = now_ms + head.reply_timeout_ms
        job = replace(
            head,
            assigned=name,
            reply_by_ms=reply_by_ms,
            wake_at_ms=min(reply_by_ms, head.deadline_ms or reply_by_ms),
        )
        return replace(job, timeline=(replace(job.timeline[0], reason=waits(job)),))


def waits_for_host(head: Head) -> bool:
    """Whether a new job is to be assigned to the agent that it names."""
    named = head.spec.target is not None and not is_broadcast(head.spec.target)
    return head.state is State.PENDING and named


def _name_host(head: Head, agents: Sequence[Heartbeat]) -> Head | str:
    try:
        target = str(find_host(agents, head.spec.target or "", head.queue))
    except ValueError as problem:
        return str(problem)
    return replace(head, spec=head.spec.model_copy(update={"target": target}))


def _target(head: Head) -> Target:
    target = parse_valid_target(head.spec.target)
    if target is None:
        raise ValueError(f"job {head.job_id} has no target")
    return target


def _host(head: Head) -> str:
    return _target(head).host or ""
