"""A condition that keeps a job from starting: the answer to an agent's question."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Blocking:
    """A condition that keeps a job from starting."""

    condition: str
    why: str
    untestable: bool
    """It can never be tested under this name: the job fails with `why` instead of waiting."""


def encode(blocking: Blocking | None) -> dict[str, Any]:
    """Encode an answer as JSON values; None: nothing blocks."""
    if blocking is None:
        return {"blocking": None}
    return {
        "blocking": blocking.condition,
        "why": blocking.why,
        "untestable": blocking.untestable,
    }


def decode(answer: Mapping[str, Any]) -> Blocking | None:
    """Inverse of `encode`."""
    if answer["blocking"] is None:
        return None
    return Blocking(answer["blocking"], answer["why"], answer["untestable"])
