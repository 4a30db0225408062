"""Conditions: what may block jobs, and how long to wait between two tests of one.

Pure. A condition is named `<kind>:<parameter>`, such as `http:https://api.example.com/health`;
the name is all there is to it, so jobs that name the same one wait in the same list. Testing is
elsewhere (`joblane.testers`). docs/RECOVERY.md says how to add a kind or a policy.
"""

from abc import ABC, abstractmethod
from itertools import pairwise
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from joblane.condition_names import (
    KINDS,
    MAX_NAME,
    Address,
    Condition,
    default_condition,
    http_address,
    parse,
    requested,
    scoped,
    tcp_address,
    unscoped,
)

__all__ = [
    "DEFAULT_POLICY",
    "KINDS",
    "MAX_NAME",
    "MOST_S",
    "Address",
    "AnyPolicy",
    "Condition",
    "ConditionName",
    "Constant",
    "Declaration",
    "Delay",
    "Exponential",
    "Policy",
    "Step",
    "Stepwise",
    "default_condition",
    "http_address",
    "parse",
    "requested",
    "scoped",
    "tcp_address",
    "unscoped",
]

MOST_S = 48 * 3600
"""Longest time that a job may wait for a condition, whatever the policy."""

ConditionName = Annotated[str, AfterValidator(requested)]
"""A condition's name as a field of a model."""


class Declaration(BaseModel):
    """What an operator declares of an application: the body of `PUT /v1/conditions/{name}`."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    state: Literal["up", "down"]
    reason: Annotated[str, Field(max_length=200, pattern=r"^[^\x00-\x1f\x7f]*$")] = ""
    """A sentence for those whose jobs wait."""


class Policy(BaseModel, ABC):
    """How long to wait before each test of a condition, and when to give up.

    A policy is a subclass with a `policy` field that names it and this one method; it is listed
    in `AnyPolicy` and can then be chosen in joblane.toml.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    most_s: Annotated[int, Field(ge=1, le=MOST_S)] = MOST_S
    """A job that has waited so long, over all its blocks in a row, fails."""

    @abstractmethod
    def delay_s(self, number: int) -> int:
        """Whole seconds, at least 1, before test `number`, counted from 0.

        Must not shrink as the number grows: a job that blocks again right after it was let go
        goes on in the count.
        """


Delay = Annotated[int, Field(ge=1, le=86_400)]


class Constant(Policy):
    """The same delay each time."""

    policy: Literal["constant"] = "constant"
    every_s: Delay = 60

    def delay_s(self, number: int) -> int:  # noqa: ARG002 - the same each time
        """Seconds before each test."""
        return self.every_s


class Exponential(Policy):
    """A delay that grows by a factor, up to a longest."""

    policy: Literal["exponential"] = "exponential"
    first_s: Delay = 10
    factor: Annotated[float, Field(ge=1, le=10)] = 2
    longest_s: Delay = 300

    def delay_s(self, number: int) -> int:
        """Seconds before test `number`: the longest delay once the power passes it."""
        delay = float(self.first_s)
        for _ in range(number):
            if delay >= self.longest_s or self.factor == 1:
                break
            delay *= self.factor
        return min(int(delay), self.longest_s)


class Step(BaseModel):
    """Some tests in a row with the same delay."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    times: Annotated[int, Field(ge=1, le=10_000)]
    every_s: Delay


class Stepwise(Policy):
    """Some tests at one delay, some at the next, and the last delay for ever."""

    policy: Literal["stepwise"] = "stepwise"
    steps: Annotated[tuple[Step, ...], Field(max_length=20)] = (
        Step(times=2, every_s=10),
        Step(times=10, every_s=20),
        Step(times=10, every_s=60),
        Step(times=100, every_s=120),
    )
    then_s: Delay = 300

    def delay_s(self, number: int) -> int:
        """Seconds before test `number`."""
        left = number
        for step in self.steps:
            if left < step.times:
                return step.every_s
            left -= step.times
        return self.then_s

    @model_validator(mode="after")
    def _never_shrinks(self) -> Self:
        delays = [*(step.every_s for step in self.steps), self.then_s]
        if any(after < before for before, after in pairwise(delays)):
            raise ValueError("steps must not become shorter")
        return self


AnyPolicy = Annotated[Constant | Exponential | Stepwise, Field(discriminator="policy")]
"""Every policy that joblane.toml can choose."""

DEFAULT_POLICY = Stepwise()
