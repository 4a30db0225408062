"""An attempt that has ended, with everything that is to be written about it. Pure.

All of it is decided once: the time, the jitter of a retry, the words. Whoever writes it, now or
after a restart, writes the same transition, and the table takes a repeated one for what it is.
"""

import json
import random
from dataclasses import asdict, dataclass, replace
from typing import Any

from ec2_agent.decisions import Verdicted, expires_at, of_told, usage_json
from ec2_agent.sandbox import Ending
from joblane.aws.job_items import from_item, to_item
from joblane.aws.jobs import Facts
from joblane.aws.lanes import Received
from joblane.head import Head, Step, abridged
from joblane.lifecycle import ENDED, Outcome, State, settle
from joblane.retention import Retention


@dataclass(frozen=True, slots=True)
class Way:
    """One way that the attempt's end may be written."""

    step: Step
    facts: Facts
    condition: str | None
    """What a blocked job waits for."""
    hide_s: int | None
    """For how long its message stays hidden; None: it is deleted."""


@dataclass(frozen=True, slots=True)
class Letter:
    """The message that named the job, as it can be written down."""

    queue: str
    lane_url: str
    dead_letters_url: str
    received: Received
    since: float
    """When it was received, in Unix seconds."""


@dataclass(frozen=True, slots=True)
class Finished:
    """An attempt's end."""

    head: Head
    """As it was claimed, the submission abridged."""
    way: Way
    if_told: Way
    """What is written instead when somebody has asked for the job's end meanwhile."""
    letter: Letter

    def encode(self) -> str:
        """As JSON."""
        spec = self.head.spec.model_dump_json(exclude_defaults=True)
        return json.dumps(
            {
                "head": to_item(self.head, spec),
                "way": _way_json(self.way),
                "if_told": _way_json(self.if_told),
                "letter": asdict(self.letter),
            },
            separators=(",", ":"),
            ensure_ascii=False,
        )

    @classmethod
    def decode(cls, text: str) -> "Finished":
        """Inverse of `encode`. Raises ValueError, KeyError or TypeError for anything else."""
        value = json.loads(text)
        letter = value["letter"]
        return cls(
            head=from_item(value["head"], value["head"]),
            way=_way(value["way"]),
            if_told=_way(value["if_told"]),
            letter=Letter(**{**letter, "received": Received(**letter["received"])}),
        )


@dataclass(frozen=True, slots=True)
class End:
    """How an attempt ended."""

    verdict: Verdicted
    ending: Ending | None
    """None when it was not started, or nobody has seen its end."""
    records: int | None
    """Log records that it has written; None when nobody can tell."""
    at_ms: int
    started: bool = True
    """Whether it may have run."""


def finish(
    head: Head, letter: Letter, end: End, retention: Retention, dice: random.Random
) -> Finished:
    """Decide what follows an attempt's end."""
    head = replace(head, spec=abridged(head.spec), aside=None)
    told = replace(end, verdict=of_told(head, end.at_ms, end.verdict.why))
    return Finished(
        head=head,
        way=_follow(head, end, retention, dice),
        if_told=_follow(head, told, retention, dice),
        letter=letter,
    )


def _follow(head: Head, end: End, retention: Retention, dice: random.Random) -> Way:
    verdict, ending, now_ms = end.verdict, end.ending, end.at_ms
    attempt = replace(head.current_attempt(), started=end.started)
    settlement = settle(verdict.outcome, verdict.why, attempt, dice)
    number = head.attempt if settlement.counted else head.attempt - 1
    ended = settlement.state in ENDED
    again = settlement.state is State.RETRY
    blocked = settlement.state is State.BLOCKED
    return Way(
        step=Step(settlement.state, now_ms, number, settlement.reason, records=end.records),
        facts=Facts(
            outcome=verdict.outcome,
            exit_code=ending.exit_code if ending else None,
            signal=ending.signal if ending else None,
            usage_json=usage_json(ending.usage) if ending else None,
            next_at_ms=now_ms + int(settlement.delay_s * 1000) if again else None,
            expires_at=expires_at(settlement.state, retention, now_ms) if ended else None,
        ),
        condition=verdict.condition if blocked else None,
        hide_s=None if ended or blocked else int(settlement.delay_s),
    )


def _way_json(way: Way) -> dict[str, Any]:
    return {
        "step": way.step.encode(),
        "facts": asdict(way.facts),
        "condition": way.condition,
        "hide_s": way.hide_s,
    }


def _way(value: dict[str, Any]) -> Way:
    facts = value["facts"]
    return Way(
        step=Step.decode(value["step"]),
        facts=Facts(**{**facts, "outcome": Outcome(facts["outcome"])}),
        condition=value["condition"],
        hide_s=value["hide_s"],
    )
