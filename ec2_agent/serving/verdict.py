"""What is decided of a message that came, or that waits: see `gates`."""

from dataclasses import dataclass
from enum import Enum, auto


class Wait(Enum):
    """What a job waits for at this agent."""

    STANDING = auto()
    """That the agent takes jobs again."""
    LIMIT = auto()
    """An agent whose host has what the job asks for."""
    TENANT = auto()
    """That jobs of its tenant end."""
    SLOT = auto()
    MEMORY = auto()
    DISK = auto()


RESERVING = frozenset({Wait.MEMORY, Wait.DISK})
"""What is waited for with a slot, memory and disk reserved: nobody who comes later gets them."""


@dataclass(frozen=True, slots=True)
class Start:
    """Claim its job, and run it."""


@dataclass(frozen=True, slots=True)
class Hold:
    """Let it wait here; it stays invisible to others.

    What waits for memory or disk has its slot, its memory and its disk reserved meanwhile.
    """

    wait: Wait
    why: str
    """For the job's row, if it waits for long."""
    seconds: float | None = None
    """From the beginning of this wait to when others may have it; None: nobody else may."""


@dataclass(frozen=True, slots=True)
class GiveBack:
    """Leave it to others, or to a later process of this agent."""

    wait: Wait
    seconds: int = 0
    """How long it is hidden."""
    why: str = ""
    """To be written into the job's row first; empty: nothing."""


@dataclass(frozen=True, slots=True)
class Fail:
    """Claim its job and fail it: this agent alone may run it, and never can."""

    reason: str


@dataclass(frozen=True, slots=True)
class Drop:
    """Delete it: it is no message for this agent."""


Verdict = Start | Hold | GiveBack | Fail | Drop


def why_of(verdict: Verdict) -> str:
    """What a verdict says of its reason; empty if it says none."""
    match verdict:
        case Hold() | GiveBack():
            return verdict.why
        case Fail():
            return verdict.reason
        case Start() | Drop():
            return ""
