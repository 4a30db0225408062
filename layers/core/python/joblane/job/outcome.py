"""What is written to the table and the lane about an attempt that has ended. Pure."""

import json
import random
from dataclasses import dataclass, fields, replace
from typing import Any, cast

from joblane.job.head import Head
from joblane.job.judge import AttemptResult, Usage
from joblane.job.moves import AttemptFacts
from joblane.state.lifecycle import ENDED, State, settle
from joblane.state.retention import Retention
from joblane.state.timeline import Step

_JSON = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False)


@dataclass(frozen=True, slots=True)
class OutcomeTransition:
    """The part of an outcome record that is written to the table and the lane."""

    step: Step
    facts: AttemptFacts
    condition: str | None
    """What a blocked job waits for."""
    hide_s: int | None
    """How long the message stays hidden; None: it is deleted."""


def transition_of(
    head: Head, result: AttemptResult, retention: Retention, rng: random.Random
) -> OutcomeTransition:
    """Decide the transition of a job whose attempt has ended; `rng` gives a retry's jitter."""
    ending, at_ms = result.ending, result.at_ms
    attempt = replace(head.current_attempt(), started=result.started)
    settlement = settle(result.outcome, result.reason, attempt, rng)
    number = head.attempt if settlement.counted else head.attempt - 1
    ended = settlement.state in ENDED
    retry = settlement.state is State.RETRY
    blocked = settlement.state is State.BLOCKED
    completed = settlement.state is State.COMPLETED
    member = head.member_of is not None
    expires_at = retention.expires_at(settlement.state, at_ms, member=member)
    return OutcomeTransition(
        step=Step(settlement.state, at_ms, number, settlement.reason, records=result.records),
        facts=AttemptFacts(
            outcome=result.outcome,
            exit_code=ending.exit_code if ending else None,
            signal=ending.signal if ending else None,
            usage_json=_usage_json(ending.usage) if ending else None,
            next_at_ms=at_ms + int(settlement.delay_s * 1000) if retry else None,
            expires_at=expires_at if ended else None,
            output_bytes=result.output_bytes,
            result=ending.result if ending and completed else None,
            result_object=result.result_object if completed else None,
            output_files=result.output_files and result.output_files.for_row(),
        ),
        condition=result.condition if blocked else None,
        hide_s=None if ended or blocked else int(settlement.delay_s),
    )


def _usage_json(usage: Usage) -> str:
    """Give the resources used as compact JSON, without those that this host cannot measure."""
    found = ((each.name, getattr(usage, each.name)) for each in fields(cast("Any", usage)))
    known = {name: value for name, value in found if value is not None}
    rounded = {k: round(v, 3) if isinstance(v, float) else v for k, v in known.items()}
    return _JSON.encode(rounded)
