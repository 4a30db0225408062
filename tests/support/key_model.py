"""A small world around one key: every step of its writes, crashes and repeated events.

The decisions are the product's (`joblane.key.decide`); around them stands, step by step, the order
in which the product reads, decides, sends and writes:

    submission   reads the key, decides, sends (if it got a slot), writes key and job at once
    retry, wake  reads the key, decides, writes key and job at once, sends
    sequel       reads the key, decides, writes the key; then for each grant: moves the job, sends
    agent        receives a message: claims the job, or deletes the message; ends the job

A step is one read with its decision, or one write, or one message. Between two steps of a process
anything else may happen, and it may crash. `tests.support.key_search` visits every state.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import combinations
from typing import Literal

from joblane.job.lifecycle import ENDED, State
from joblane.key.decide import Admission, End, Granted, Queued, Replaced
from joblane.key.state import Grant
from tests.support.key_world import (
    IDS,
    RETRIED,
    Case,
    Handler,
    Key,
    Plan,
    Request,
    Row,
    Rules,
    World,
    has_started,
    key_of,
    key_state,
    outdated,
    put,
    with_end,
    with_event,
    with_handler,
    with_message,
    with_request,
    with_row,
    without_message,
    without_wake,
)


@dataclass(frozen=True)
class Model:
    """The steps of a case under some rules."""

    case: Case
    rules: Rules = field(default_factory=Rules)
    _admissions: dict[tuple[object, ...], Admission] = field(default_factory=dict)
    _releases: dict[tuple[Key, tuple[End, ...]], Handler] = field(default_factory=dict)

    def first(self) -> World:
        """The state in which everything begins."""
        case, jobs = self.case, len(self.case.limits)
        stored = (Row(State.SCHEDULED),) * case.scheduled
        world = World(
            key=Key(0, (), (), 0),
            rows=(None,) * (jobs - case.scheduled) + stored,
            messages=(0,) * jobs,
            requests=(None,) * jobs,
            handlers=(None,) * case.handlers,
            ends=frozenset(),
            latest=Grant("", 0),
            problem="",
            crashes=case.crashes,
            cancels=case.cancels,
            retries=case.retries,
            repeats=case.repeats,
            deletions=case.deletions,
            returns=case.returns,
        )
        for n in range(case.there):
            world = self._decide(world, n, "submit")
            while (request := world.requests[n]) is not None and request.phase != "over":
                _, world = next(self._request(world, n, request))
        return world

    def steps(self, world: World) -> Iterator[tuple[str, World]]:
        """All that may happen next, with names; those of troubles begin with `!`."""
        alike = len(set(self.case.limits)) == 1 and not self.case.scheduled
        for n in range(len(world.rows)):
            request = world.requests[n]
            # Jobs that are alike come in the order of their names: any other order differs from
            # that by their names only.
            if request is None and (n == 0 or not alike or world.requests[n - 1] is not None):
                kind: Literal["submit", "wake"] = "submit" if world.rows[n] is None else "wake"
                yield f"{kind} {IDS[n]} reads", self._decide(world, n, kind)
            elif request is not None:
                yield from self._request(world, n, request)
            yield from self._message(world, n)
            yield from self._job(world, n)
        for n, handler in enumerate(world.handlers):
            if handler is not None:
                yield from self._handler(world, n, handler)
        if None in world.handlers:
            yield from self._take(world, world.handlers.index(None))

    # --- admission

    def _request(self, world: World, n: int, request: Request) -> Iterator[tuple[str, World]]:
        if request.phase == "over":
            return
        kind, name = request.kind, f"{request.kind} {IDS[n]}"
        match request.phase:
            case "read":
                yield f"{name} reads again", self._decide(world, n, kind)
            case "send":
                after = with_request(world, n, request._replace(phase="write"))
                yield f"{name} sends", with_message(after, n)
            case "orphan":
                after = with_request(world, n, Request(kind, "read"))
                yield f"{name} sends in vain", with_message(after, n)
            case "write":
                yield f"{name} writes", self._write(world, n, request)
            case "send after":
                over = with_request(world, n, Request(kind, "over"))
                yield f"{name} sends", without_wake(with_message(over, n), n)
        if world.crashes:
            requests = put(world.requests, n, Request(kind, "over"))
            crashed = world._replace(requests=requests, crashes=world.crashes - 1)
            row = world.rows[n]
            # The client may or may not repeat its call; the requeue function runs again.
            if kind != "wake" or row is None or row.state is not State.SCHEDULED:
                yield f"! {name} crashes", crashed
            if (row is None) == (kind == "submit") and kind != "retry":
                yield f"! {name} crashes and comes again", with_request(crashed, n, None)

    def _decide(self, world: World, n: int, kind: Literal["submit", "retry", "wake"]) -> World:
        """Read the key and the job, and decide."""
        row, rules = world.rows[n], self.rules
        over = with_request(world, n, Request(kind, "over"))
        states = {"submit": {None}, "retry": RETRIED, "wake": {State.SCHEDULED}}[kind]
        if (None if row is None else row.state) not in states:
            return over
        limits = self.case.limits.index(self.case.limits[n])
        decision = self._admitted(world, n, kind == "retry")
        before, victim = Row(State.PENDING) if row is None else row, None
        match decision:
            case Granted(state, slot) | Replaced(state, _, int(slot)):
                in_wake = rules.in_wake and kind != "submit"
                new = before._replace(state=State.PENDING, slot=slot, due=in_wake)
            case Queued(state) | Replaced(state):
                kept = None if rules.empties_slot else before.slot
                after = state.grants if kind == "retry" else None
                new = before._replace(state=State.WAITING, slot=kept, queued_after=after)
            case _ if kind == "wake":
                skipped = Plan(None, before._replace(state=State.SKIPPED), row)
                return with_request(world, n, Request(kind, "write", skipped))
            case _:
                return over
        if isinstance(decision, Replaced):
            victim = decision.victim
        sends = kind == "submit" and new.state is State.PENDING
        plan = Plan(key_of(state, limits), new, row, victim)
        return with_request(world, n, Request(kind, "send" if sends else "write", plan))

    def _admitted(self, world: World, n: int, again: bool) -> Admission:  # noqa: FBT001
        """The decision on a job; each is made once."""
        key, limits = world.key, self.case.limits
        started = tuple(has_started(world.rows[IDS.index(job)]) for job, _ in key.active)
        asked = (key, n, again, started)
        if asked not in self._admissions:
            rule = self.rules.readmit if again else self.rules.admit
            holders = {job: has for (job, _), has in zip(key.active, started, strict=True)}
            self._admissions[asked] = rule(key_state(key, limits), IDS[n], limits[n], holders)
        return self._admissions[asked]

    def _write(self, world: World, n: int, request: Request) -> World:
        """Write key and job, and skip who is replaced; or write nothing."""
        plan, refused = request.plan, with_request(world, n, Request(request.kind, "read"))
        if plan is None or world.rows[n] != plan.seen:
            return refused
        if plan.victim is not None:
            replaced = IDS.index(plan.victim)
            row = world.rows[replaced]
            if row is None or not self.rules.may_replace(row):
                return refused
            world = with_end(world, replaced, State.SKIPPED)
        if plan.key is not None:
            world = self._write_key(world, plan.key)
            if not self.rules.one_transaction:
                rest = plan._replace(key=None, victim=None)
                return with_request(world, n, request._replace(plan=rest))
        sends = request.kind != "submit" and plan.row.state is State.PENDING
        after = Request(request.kind, "send after" if sends else "over")
        world = with_request(with_row(world, n, plan.row), n, after)
        return with_end(world, n, plan.row.state) if plan.row.state in ENDED else world

    def _write_key(self, world: World, key: Key) -> World:
        """Write the key. Those that have read it before are refused later: they read it again."""
        if not self.rules.compares_versions:
            return world._replace(key=key)
        return world._replace(
            key=key,
            requests=tuple(outdated(request) for request in world.requests),
            handlers=tuple(
                Handler(each.ends, "read") if each is not None and each.phase == "write" else each
                for each in world.handlers
            ),
        )

    # --- agents, operators, the requeue function

    def _message(self, world: World, n: int) -> Iterator[tuple[str, World]]:
        row = world.rows[n]
        if row is not None and row.due:
            yield f"requeue sends {IDS[n]}", without_wake(with_message(world, n), n)
        if not world.messages[n] or row is None:
            return  # without a row, agents discard it: that is its last step
        if self.rules.may_claim(row):
            claimed = with_row(world, n, row._replace(state=State.ACTIVE, claimed=True))
            if row.slot is not None:
                claimed = self._claimed(claimed, Grant(IDS[n], row.slot))
            yield f"agent claims {IDS[n]}", claimed
        elif row.state is not State.ACTIVE:
            yield f"agent finds {IDS[n]} {row.state}", without_message(world, n)

    def _claimed(self, world: World, grant: Grant) -> World:
        """JOBLANE_SLOT must rise; of keys with several slots, only that of each grant does."""
        before = world.latest
        if any(limits.max_active > 1 for limits in self.case.limits):
            return world
        if grant.slot < before.slot + (grant.job_id != before.job_id):
            return world._replace(problem="slots do not rise")
        return world._replace(latest=grant)

    def _job(self, world: World, n: int) -> Iterator[tuple[str, World]]:
        row, name, request = world.rows[n], IDS[n], world.requests[n]
        if row is None:
            return
        if row.state is State.ACTIVE:
            yield f"{name} succeeds", with_end(world, n, State.COMPLETED)
            if world.retries:
                yield f"{name} fails", with_end(without_message(world, n), n, State.FAILED)
            if world.returns:
                left = world._replace(returns=world.returns - 1)
                yield (
                    f"! {name} is handed back",
                    with_row(left, n, row._replace(state=State.PENDING)),
                )
            return
        if world.retries and row.state is State.PENDING and world.messages[n]:
            yield f"{name} is dead", with_end(without_message(world, n), n, State.DEAD)
        over = request is not None and request.phase == "over"
        if world.retries and row.state in RETRIED and over:
            left = world._replace(retries=world.retries - 1)
            yield f"! retry {name} reads", self._decide(left, n, "retry")
        if world.cancels and row.state not in ENDED:
            left = world._replace(cancels=world.cancels - 1)
            yield f"! cancel {name}", with_end(left, n, State.CANCELLED)
        if world.deletions:
            left = world._replace(deletions=world.deletions - 1)
            gone = left if row.state in ENDED else with_event(left, n)
            yield f"! delete {name}", with_row(gone, n, None)

    # --- sequel

    def _take(self, world: World, n: int) -> Iterator[tuple[str, World]]:
        busy = {end for handler in world.handlers if handler for end in handler.ends}
        ends = sorted(world.ends, key=lambda end: (end.job_id, end.slot or 0))
        for taken in (each for k in range(self.case.batch) for each in combinations(ends, k + 1)):
            name = f"sequel {n} takes the end of {''.join(end.job_id for end in taken)}"
            handler = self._release(world, taken)
            if busy.isdisjoint(taken):
                yield from self._after(world, n, handler, name)
            elif world.repeats:
                left = world._replace(repeats=world.repeats - 1)
                yield from self._after(left, n, handler, f"! {name} too")

    def _release(self, world: World, ends: tuple[End, ...]) -> Handler:
        """Read the key and decide what follows ends; each is decided once."""
        before = world.key
        if (before, ends) not in self._releases:
            released = self.rules.release(key_state(before, self.case.limits), ends)
            key = None if released.state is None else key_of(released.state, before.limits)
            phase: Literal["grant", "write"] = "grant" if key in (None, before) else "write"
            self._releases[before, ends] = Handler(ends, phase, key, released.granted)
        return self._releases[before, ends]

    def _after(
        self, world: World, n: int, handler: Handler, name: str
    ) -> Iterator[tuple[str, World]]:
        """Go on with an execution, or end it if nothing is left to do."""
        if handler.phase != "grant" or handler.granted:
            yield name, with_handler(world, n, handler)
            return
        done = with_handler(world, n, None)
        yield f"{name}, done", done._replace(ends=world.ends - {*handler.ends})
        if world.repeats:
            yield f"! {name}, and comes again", done._replace(repeats=world.repeats - 1)
        if world.crashes:
            yield f"! {name}, and crashes", done._replace(crashes=world.crashes - 1)

    def _handler(self, world: World, n: int, handler: Handler) -> Iterator[tuple[str, World]]:
        match handler.phase:
            case "read":
                again = self._release(world, handler.ends)
                yield from self._after(world, n, again, f"sequel {n} reads again")
            case "write" if handler.key is not None:
                written = self._write_key(with_handler(world, n, None), handler.key)
                after = handler._replace(phase="grant", key=None)
                yield from self._after(written, n, after, f"sequel {n} writes")
            case _:
                yield from self._grant(world, n, handler)
        if world.crashes:
            left = world._replace(crashes=world.crashes - 1)
            yield f"! sequel {n} crashes", with_handler(left, n, None)

    def _grant(self, world: World, n: int, handler: Handler) -> Iterator[tuple[str, World]]:
        """Let the first of the granted jobs go: the move is one step, the message another one."""
        grant, rest = handler.granted[0], handler.granted[1:]
        name, row = grant.job_id, world.rows[IDS.index(grant.job_id)]
        moves_first = self.rules.moves_first
        if handler.phase == "finish grant":
            second = self._send if moves_first else self._move
            after = Handler(handler.ends, "grant", None, rest)
            what = "sends" if moves_first else "moves"
            yield from self._after(second(world, grant), n, after, f"sequel {n} {what} {name}")
            return
        pending = row is not None and row.state is State.PENDING and self.rules.sends_again
        if not pending and (row is None or not self.rules.may_grant(row, grant.slot)):
            after = handler._replace(granted=rest)
            yield from self._after(world, n, after, f"sequel {n} leaves {name}")
            return
        first = self._move if moves_first else self._send
        what = "moves" if moves_first else "sends"
        after = handler._replace(phase="finish grant")
        yield f"sequel {n} {what} {name}", with_handler(first(world, grant), n, after)

    def _move(self, world: World, grant: Grant) -> World:
        n = IDS.index(grant.job_id)
        row = world.rows[n]
        if row is None or not self.rules.may_grant(row, grant.slot):
            return world
        moved = row._replace(state=State.PENDING, slot=grant.slot, queued_after=None)
        return with_row(world, n, moved)

    def _send(self, world: World, grant: Grant) -> World:
        return with_message(world, IDS.index(grant.job_id))
