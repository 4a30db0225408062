"""What is written about an attempt that has ended: stored locally first, then in AWS. Pure.

An attempt's end passes four types:

    type           module                     holds
    Ending         sandbox/model.py           how the process ended: exit code, signal, usage
    AttemptResult  joblane/job/judge.py       what that means: outcome, reason, condition
    Settlement     joblane/state/lifecycle.py what follows: the job's next state, the retry's delay
    OutcomeRecord  outcomes/record.py         what is written: transition, facts, the message's fate

All of it is decided once: the time, the retry's jitter, the reason. A repeated write, after a
restart too, writes the same transition, and the table accepts a repeated one.
"""

import json
import random
from dataclasses import dataclass, replace
from typing import Any

from ec2_agent.fields import fields_of, pick_known
from ec2_agent.messages.delivery import Delivery, decode_delivery, encode_delivery
from joblane.aws.job.items import encode_spec, from_item, to_item
from joblane.files.models import OutputSummary
from joblane.job.head import Head, abridge
from joblane.job.judge import AttemptResult, judge_cancelled
from joblane.job.moves import AttemptFacts
from joblane.job.outcome import OutcomeTransition, transition_of
from joblane.state.lifecycle import Outcome
from joblane.state.result import ResultObject
from joblane.state.retention import Retention
from joblane.state.timeline import Step

_JSON = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False)


@dataclass(frozen=True, slots=True)
class OutcomeRecord:
    """One outcome, as the journal stores it."""

    head: Head
    """As it was claimed, the submission abridged."""
    transition: OutcomeTransition
    if_cancelled: OutcomeTransition
    """Written instead if the job has been asked to end in the meantime."""
    delivery: Delivery

    def encode(self) -> str:
        """Give the record as JSON."""
        return _JSON.encode(
            {
                "head": to_item(self.head, encode_spec(self.head.spec)),
                "transition": _encode(self.transition),
                "if_cancelled": _encode(self.if_cancelled),
                "delivery": encode_delivery(self.delivery),
            }
        )

    @classmethod
    def decode(cls, text: str) -> "OutcomeRecord":
        """Inverse of `encode`; ignores further keys. Raises ValueError, KeyError or TypeError."""
        value = json.loads(text)
        return cls(
            head=from_item(value["head"]),
            transition=_decode(value["transition"]),
            if_cancelled=_decode(value["if_cancelled"]),
            delivery=decode_delivery(value["delivery"]),
        )


def decide(
    head: Head,
    delivery: Delivery,
    result: AttemptResult,
    retention: Retention,
    rng: random.Random,
) -> OutcomeRecord:
    """Decide what is written about an attempt that has ended."""
    head = replace(head, spec=abridge(head.spec), payload=None)
    outcome, reason = judge_cancelled(head, result.at_ms, result.reason)
    if_cancelled = replace(result, outcome=outcome, reason=reason, condition=None)
    return OutcomeRecord(
        head=head,
        transition=transition_of(head, result, retention, rng),
        if_cancelled=transition_of(head, if_cancelled, retention, rng),
        delivery=delivery,
    )


def _encode(transition: OutcomeTransition) -> dict[str, Any]:
    facts = fields_of(transition.facts)
    if (stored := transition.facts.result_object) is not None:
        facts["result_object"] = fields_of(stored)
    if (files := transition.facts.output_files) is not None:
        facts["output_files"] = files.model_dump(exclude_defaults=True)
    return {
        "step": transition.step.encode(),
        "facts": facts,
        "condition": transition.condition,
        "hide_s": transition.hide_s,
    }


def _decode(value: dict[str, Any]) -> OutcomeTransition:
    facts = pick_known(AttemptFacts, value["facts"])
    stored, files = facts["result_object"], facts["output_files"]
    return OutcomeTransition(
        step=Step.decode(value["step"]),
        facts=AttemptFacts(
            **{
                **facts,
                "outcome": Outcome(facts["outcome"]),
                "result_object": stored and ResultObject(**pick_known(ResultObject, stored)),
                "output_files": files and OutputSummary.model_validate(files),
            }
        ),
        condition=value["condition"],
        hide_s=value["hide_s"],
    )
