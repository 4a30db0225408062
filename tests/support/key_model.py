"""A small world around one key: every step of its writes, crashes and repeated events.

The decisions are the product's (`joblane.key.decide`); around them stands, step by step, the order
in which the product reads, decides, sends and writes:

    submission   reads the key, decides, sends (if it got a slot), writes key and job at once
    retry, wake  reads the key, decides, writes key and job at once, sends
    retry under  reads both keys, decides, writes keys and job at once; for each grant in the key
    another key  that it leaves: moves the job, sends; then sends
    sequel       reads the key, decides, writes the key; then for each grant: moves the job, sends
    agent        receives a message: claims the job, or deletes the message; ends the job

A step is one read with its decision, or one write, or one message. Between two steps of a process
anything else may happen, and it may crash. `tests.support.key_search` visits every state.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import combinations
from typing import Literal

from joblane.key import decide
from joblane.key.decide import (
    Admission,
    Coalesced,
    End,
    Granted,
    Queued,
    Replaced,
    SeenJob,
    ends_of,
)
from joblane.key.state import Grant
from joblane.state.lifecycle import ENDED, State
from tests.support.key_world import (
    IDS,
    RETRIED,
    Case,
    Event,
    Handler,
    Key,
    Plan,
    Request,
    Row,
    Rules,
    World,
    key_of,
    key_state,
    outdated,
    put,
    seen,
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
    _admissions: dict[tuple[object, ...], tuple[Admission, tuple[Grant, ...]] | None] = field(
        default_factory=dict
    )
    _releases: dict[tuple[Key, int, tuple[End, ...], bool], Handler] = field(default_factory=dict)

    def first(self) -> World:
        """The state in which everything begins."""
        case, jobs = self.case, len(self.case.limits)
        stored = (Row(State.SCHEDULED),) * case.scheduled
        world = World(
            keys=(Key(0, (), (), 0),) * case.keys,
            rows=(None,) * (jobs - case.scheduled) + stored,
            messages=(0,) * jobs,
            requests=(None,) * jobs,
            handlers=(None,) * case.handlers,
            ends=frozenset(),
            latest=(Grant("", 0),) * case.keys,
            watched=(False,) * case.keys,
            problem="",
            crashes=case.crashes,
            cancels=case.cancels,
            retries=case.retries,
            repeats=case.repeats,
            deletions=case.deletions,
            returns=case.returns,
            losses=case.losses,
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
            yield from self._look(world, world.handlers.index(None))

    # --- admission

    def _request(self, world: World, n: int, request: Request) -> Iterator[tuple[str, World]]:
        if request.phase == "over":
            return
        kind, name = request.kind, f"{request.kind} {IDS[n]}"
        match request.phase:
            case "read":
                yield f"{name} reads again", self._decide(world, n, kind, request.of)
            case "send":
                after = with_request(world, n, request._replace(phase="write"))
                yield f"{name} sends", with_message(after, n)
            case "orphan":
                after = with_request(world, n, Request(kind, "read", of=request.of))
                yield f"{name} sends in vain", with_message(after, n)
            case "write":
                yield f"{name} writes", self._write(world, n, request)
            case "grant" | "finish grant" if request.plan is not None:
                yield from self._grant_after(world, n, request, request.plan)
            case "leave" if request.plan is not None and request.plan.left is not None:
                left, row = request.plan.left, world.rows[n]
                written = self._write_key(world, 1 - request.of, left)
                yield (
                    f"{name} leaves its key",
                    with_request(
                        written,
                        n,
                        request._replace(
                            phase="send after"
                            if row is not None and row.state is State.PENDING
                            else "over"
                        ),
                    ),
                )
            case "send after":
                over = with_request(world, n, Request(kind, "over"))
                yield f"{name} sends", without_wake(with_message(over, n), n)
        if world.crashes:
            yield from self._request_crashes(world, n, kind)

    @staticmethod
    def _request_crashes(
        world: World, n: int, kind: Literal["submit", "retry", "wake"]
    ) -> Iterator[tuple[str, World]]:
        name = f"{kind} {IDS[n]}"
        requests = put(world.requests, n, Request(kind, "over"))
        crashed = world._replace(requests=requests, crashes=world.crashes - 1)
        row = world.rows[n]
        # The client may or may not repeat its call; the requeue function runs again.
        if kind != "wake" or row is None or row.state is not State.SCHEDULED:
            yield f"! {name} crashes", crashed
        if (row is None) == (kind == "submit") and kind != "retry":
            yield f"! {name} crashes and comes again", with_request(crashed, n, None)

    def _decide(
        self, world: World, n: int, kind: Literal["submit", "retry", "wake"], of: int = 0
    ) -> World:
        """Read the key `of` and the job, and decide."""
        row, rules = world.rows[n], self.rules
        over = with_request(world, n, Request(kind, "over"))
        states = {"submit": {None}, "retry": RETRIED, "wake": {State.SCHEDULED}}[kind]
        if (None if row is None else row.state) not in states:
            return over
        limits = self.case.limits.index(self.case.limits[n])
        admitted = self._decide_admission(world, n, kind == "retry", of)
        if admitted is None:
            return with_request(world, n, Request(kind, "read", of=of))
        decision, granted = admitted
        before, victim = Row(State.PENDING) if row is None else row._replace(of=of), None
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
        granted = tuple(grant for grant in granted if grant.job_id in state.active)
        left, passed_on = self._leave(world, n, of)
        plan = Plan(key_of(state, limits), new, row, victim, granted, left, passed_on)
        return with_request(world, n, Request(kind, "send" if sends else "write", plan, of))

    def _leave(self, world: World, n: int, of: int) -> tuple[Key | None, tuple[Grant, ...]]:
        """The key that a job leaves, if that lists it, and who gets its slot."""
        row = world.rows[n]
        if row is None or row.of == of or self.rules.leaves is None:
            return None, ()
        key = world.keys[row.of]
        if IDS[n] not in {*dict(key.active), *key.queued}:
            return None, ()
        released = self.rules.leaves(key_state(key, self.case.limits), IDS[n])
        if released.state is None:
            return None, ()
        return key_of(released.state, key.limits), released.granted

    def _decide_admission(
        self,
        world: World,
        n: int,
        again: bool,
        of: int,
    ) -> tuple[Admission, tuple[Grant, ...]] | None:
        """The decision on a job, and who gets slots with it; each is made once.

        None if the key must be read again.
        """
        key = world.keys[of]
        rows = self._seen(world, of, {*dict(key.active), *key.queued})
        asked = (key, n, again, tuple(sorted(rows.items())))
        if asked not in self._admissions:
            self._admissions[asked] = self._admit(key, n, rows, again)
        return self._admissions[asked]

    @staticmethod
    def _seen(world: World, of: int, jobs: Iterable[str]) -> dict[str, SeenJob]:
        """Jobs of a key that have a row which names it."""
        rows = ((job, world.rows[IDS.index(job)]) for job in jobs)
        return {job: seen(row) for job, row in rows if row is not None and row.of == of}

    def _admit(
        self,
        key: Key,
        n: int,
        rows: dict[str, SeenJob],
        again: bool,
    ) -> tuple[Admission, tuple[Grant, ...]] | None:
        rules, limits, name = self.rules, self.case.limits[n], IDS[n]
        state, doubted = key_state(key, self.case.limits), set[str]()
        if again and name in state.active:
            return rules.readmit(state, name, limits, {}), ()
        while True:
            policy = limits.model_copy(update={"when_full": "reject"}) if again else limits
            looked = rules.look(
                state, policy, lambda jobs: {job: rows[job] for job in jobs if job in rows}, doubted
            )
            if looked is None:
                return None
            rule = rules.readmit if again else rules.admit
            decision = rule(looked.state, name, limits, looked.started)
            if isinstance(decision, Coalesced):
                there = rows.get(decision.job_id)
                if (there is None or there.state in ENDED) and decision.job_id not in doubted:
                    doubted.add(decision.job_id)
                    continue
            return decision, looked.granted

    def _write(self, world: World, n: int, request: Request) -> World:
        """Write key and job, and skip who is replaced; or write nothing."""
        again = Request(request.kind, "read", of=request.of)
        plan, refused = request.plan, with_request(world, n, again)
        if plan is None or world.rows[n] != plan.seen:
            return refused
        if plan.victim is not None:
            replaced = IDS.index(plan.victim)
            row = world.rows[replaced]
            if row is None or not self.rules.may_replace(row):
                return refused
            world = with_end(world, replaced, State.SKIPPED)
        if plan.left is not None and self.rules.leaves_at_once:
            world = self._write_key(world, 1 - request.of, plan.left)
        if plan.key is not None:
            world = self._write_key(world, request.of, plan.key)
            if not self.rules.one_transaction:
                rest = plan._replace(key=None, victim=None)
                return with_request(world, n, request._replace(plan=rest))
        after = self._after_write(request, plan)
        if plan.left is not None and not self.rules.leaves_at_once:
            after = Request(request.kind, "leave", plan._replace(key=None), request.of)
        elif plan.granted or plan.passed_on:
            after = Request(request.kind, "grant", plan._replace(key=None), request.of)
        world = with_request(with_row(world, n, plan.row), n, after)
        return with_end(world, n, plan.row.state) if plan.row.state in ENDED else world

    @staticmethod
    def _after_write(request: Request, plan: Plan) -> Request:
        sends = request.kind != "submit" and plan.row.state is State.PENDING
        return Request(request.kind, "send after" if sends else "over", of=request.of)

    def _grant_after(
        self, world: World, n: int, request: Request, plan: Plan
    ) -> Iterator[tuple[str, World]]:
        """Let the first of those go that got a slot with the write of an admission."""
        own = bool(plan.granted)
        rest = plan._replace(granted=plan.granted[1:])
        if not own:
            rest = plan._replace(passed_on=plan.passed_on[1:])
        over = Request(request.kind, "grant", rest, request.of)
        if not rest.granted and not rest.passed_on:
            over = self._after_write(request, plan)
        finishing = request.phase == "finish grant"
        grant, of = (plan.granted[0], request.of) if own else (plan.passed_on[0], 1 - request.of)
        what, after, done = self._let_go(world, of, grant, finishing)
        following = over if done else request._replace(phase="finish grant")
        yield f"{request.kind} {IDS[n]} {what}", with_request(after, n, following)

    def _write_key(self, world: World, of: int, key: Key) -> World:
        """Write a key. Those that have read it before are refused later: they read it again."""
        waits = bool(key.queued) or (bool(world.keys[of].queued) and bool(key.active))
        world = world._replace(watched=put(world.watched, of, waits), keys=put(world.keys, of, key))
        if not self.rules.compares_versions:
            return world
        return world._replace(
            requests=tuple(
                outdated(request)
                if request is not None and self._has_read(request, of)
                else request
                for request in world.requests
            ),
            handlers=tuple(
                Handler(each.ends, "read", of=of)
                if each is not None and each.phase == "write" and each.of == of
                else each
                for each in world.handlers
            ),
        )

    def _has_read(self, request: Request, of: int) -> bool:
        """Whether a request writes a key: the one that admits it, or the one that it leaves."""
        if request.of == of:
            return True
        return (
            self.rules.compares_left and request.plan is not None and request.plan.left is not None
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
                claimed = self._claim(claimed, row.of, Grant(IDS[n], row.slot))
            yield f"agent claims {IDS[n]}", claimed
        elif row.state is not State.ACTIVE:
            yield f"agent finds {IDS[n]} {row.state}", without_message(world, n)

    def _claim(self, world: World, of: int, grant: Grant) -> World:
        """JOBLANE_SLOT must rise; of keys with several slots, only that of each grant does."""
        before = world.latest[of]
        if any(limits.max_active > 1 for limits in self.case.limits):
            return world
        if grant.slot < before.slot + (grant.job_id != before.job_id):
            return world._replace(problem="slots do not rise")
        return world._replace(latest=put(world.latest, of, grant))

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
            for of in range(self.case.keys):
                under = f" under key {of}" if self.case.keys > 1 else ""
                yield f"! retry {name} reads{under}", self._decide(left, n, "retry", of)
        if world.cancels and row.state not in ENDED:
            left = world._replace(cancels=world.cancels - 1)
            yield f"! cancel {name}", with_end(left, n, State.CANCELLED)
        if world.deletions:
            left = world._replace(deletions=world.deletions - 1)
            gone = left if row.state in ENDED else with_event(left, n)
            yield f"! delete {name}", with_row(gone, n, None)

    # --- sequel

    def _take(self, world: World, n: int) -> Iterator[tuple[str, World]]:
        for of in range(self.case.keys):
            yield from self._take_of(world, n, of)

    def _take_of(self, world: World, n: int, of: int) -> Iterator[tuple[str, World]]:
        """Take ends of one key."""
        busy = {end for each in world.handlers if each and each.of == of for end in each.ends}
        ends = sorted(
            (event.end for event in world.ends if event.of == of),
            key=lambda end: (end.job_id, end.slot or 0),
        )
        for taken in (each for k in range(self.case.batch) for each in combinations(ends, k + 1)):
            name = f"sequel {n} takes the end of {''.join(end.job_id for end in taken)}"
            if self.case.keys > 1:
                name += f" under key {of}"
            handler = self._release(world, self._key_of_ends(world, of, taken), taken)
            if busy.isdisjoint(taken):
                yield from self._after(world, n, handler, name)
            elif world.repeats:
                left = world._replace(repeats=world.repeats - 1)
                yield from self._after(left, n, handler, f"! {name} too")
            if world.losses and busy.isdisjoint(taken):
                gone = {Event(of, end) for end in taken}
                left = world._replace(losses=world.losses - 1, ends=world.ends - gone)
                yield f"! the end of {''.join(end.job_id for end in taken)} is lost", left

    def _key_of_ends(self, world: World, of: int, ends: tuple[End, ...]) -> int:
        """The key whose slots the ends free: the one that their jobs had."""
        row = world.rows[IDS.index(ends[0].job_id)]
        return of if row is None or self.rules.end_names_key else row.of

    def _look(self, world: World, n: int) -> Iterator[tuple[str, World]]:
        for of in range(self.case.keys):
            if self.case.losses and world.watched[of] and self.rules.looks_at_keys:
                yield from self._look_at(world, n, of)

    def _look_at(self, world: World, n: int, of: int) -> Iterator[tuple[str, World]]:
        """Let the requeue function read a key and its jobs, if something is to be done."""
        key = world.keys[of]
        slots = {**dict.fromkeys(key.queued), **dict(key.active)}
        rows = self._seen(world, of, slots)
        ends = tuple(ends_of(slots, rows))
        unsent = any(
            (row := world.rows[IDS.index(job)]) is not None
            and (row.state is State.WAITING or (row.state, row.claimed) == (State.PENDING, False))
            and not world.messages[IDS.index(job)]
            for job, _ in key.active
        )
        looking = any(handler is not None and handler.looks for handler in world.handlers)
        if (ends or unsent) and not looking:
            looks = Handler(ends, "read", looks=True, of=of)
            yield f"requeue looks as {n}", with_handler(world, n, looks)

    def _release(
        self,
        world: World,
        of: int,
        ends: tuple[End, ...],
        looks: bool = False,  # noqa: FBT002
    ) -> Handler:
        """Read a key and decide what follows ends; each is decided once."""
        before = world.keys[of]
        if (before, of, ends, looks) not in self._releases:
            state = key_state(before, self.case.limits)
            released = decide.release(state, ends, again=True) if looks else None
            released = released or self.rules.release(state, ends)
            key = None if released.state is None else key_of(released.state, before.limits)
            phase: Literal["grant", "write"] = "grant" if key in (None, before) else "write"
            made = Handler(ends, phase, key, released.granted, looks, of)
            self._releases[before, of, ends, looks] = made
        return self._releases[before, of, ends, looks]

    def _after(
        self, world: World, n: int, handler: Handler, name: str
    ) -> Iterator[tuple[str, World]]:
        """Go on with an execution, or end it if nothing is left to do."""
        if handler.phase != "grant" or handler.granted:
            yield name, with_handler(world, n, handler)
            return
        done = with_handler(world, n, None)
        if handler.looks:
            yield f"{name}, done", done
            return
        # With the rule broken, ends of either key.
        keys = (handler.of,) if self.rules.end_names_key else range(self.case.keys)
        over = {Event(of, end) for of in keys for end in handler.ends}
        yield f"{name}, done", done._replace(ends=world.ends - over)
        if world.repeats:
            yield f"! {name}, and comes again", done._replace(repeats=world.repeats - 1)
        if world.crashes:
            yield f"! {name}, and crashes", done._replace(crashes=world.crashes - 1)

    def _handler(self, world: World, n: int, handler: Handler) -> Iterator[tuple[str, World]]:
        match handler.phase:
            case "read":
                again = self._release(world, handler.of, handler.ends, handler.looks)
                yield from self._after(world, n, again, f"sequel {n} reads again")
            case "write" if handler.key is not None:
                written = self._write_key(with_handler(world, n, None), handler.of, handler.key)
                after = handler._replace(phase="grant", key=None)
                yield from self._after(written, n, after, f"sequel {n} writes")
            case _:
                yield from self._grant(world, n, handler)
        if world.crashes:
            left = world._replace(crashes=world.crashes - 1)
            yield f"! sequel {n} crashes", with_handler(left, n, None)

    def _grant(self, world: World, n: int, handler: Handler) -> Iterator[tuple[str, World]]:
        """Let the first of the granted jobs go: the move is one step, the message another one."""
        finishing = handler.phase == "finish grant"
        what, after, done = self._let_go(world, handler.of, handler.granted[0], finishing)
        if done:
            rest = handler._replace(phase="grant", key=None, granted=handler.granted[1:])
            yield from self._after(after, n, rest, f"sequel {n} {what}")
        else:
            yield (
                f"sequel {n} {what}",
                with_handler(after, n, handler._replace(phase="finish grant")),
            )

    def _let_go(
        self,
        world: World,
        of: int,
        grant: Grant,
        finishing: bool,
    ) -> tuple[str, World, bool]:
        """Let a job go: what happens, the world after it, and whether that was the last step."""
        name, row = grant.job_id, world.rows[IDS.index(grant.job_id)]
        moves_first = self.rules.moves_first
        if finishing:
            what, second = ("sends", self._send) if moves_first else ("moves", self._move)
            return f"{what} {name}", second(world, of, grant), True
        pending = row is not None and row.state is State.PENDING and self.rules.sends_again
        if not pending and not self._may_grant(row, of, grant.slot):
            return f"leaves {name}", world, True
        what, first = ("moves", self._move) if moves_first else ("sends", self._send)
        return f"{what} {name}", first(world, of, grant), False

    def _may_grant(self, row: Row | None, of: int, slot: int) -> bool:
        if row is None or (self.rules.grant_names_key and row.of != of):
            return False
        return self.rules.may_grant(row, slot)

    def _move(self, world: World, of: int, grant: Grant) -> World:
        n = IDS.index(grant.job_id)
        row = world.rows[n]
        if row is None or not self._may_grant(row, of, grant.slot):
            return world
        moved = row._replace(state=State.PENDING, slot=grant.slot, queued_after=None)
        return with_row(world, n, moved)

    @staticmethod
    def _send(world: World, _of: int, grant: Grant) -> World:
        return with_message(world, IDS.index(grant.job_id))
