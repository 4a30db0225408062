"""Policies: how long to wait between two tests of a condition, and when to give up.

The tests are in `joblane.service.condition.testers`; docs/how-to/add-a-condition.md says how to add
a kind or a policy.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from itertools import pairwise
from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, model_validator

from joblane.condition.names import MOST_S


class Policy(BaseModel, ABC):
    """How long to wait before each test of a condition, and when to give up.

    A policy is a subclass with a `policy` field that names it and this one method; it is listed
    in `AnyPolicy` and can then be chosen in joblane.toml.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    most_s: Annotated[int, Field(ge=1, le=MOST_S)] = MOST_S
    """Longest total wait of a job, in seconds, over consecutive blocks; then it fails."""

    @abstractmethod
    def delay_s(self, number: int) -> int:
        """Seconds, at least 1, before test `number`, counted from 0.

        Must not decrease with the number: a job that blocks again right after its release
        continues the count.
        """


Delay = Annotated[int, Field(ge=1, le=86_400)]


class Constant(Policy):
    """The same delay each time."""

    policy: Literal["constant"] = "constant"
    """Selects this policy."""
    every_s: Delay = 60
    """Seconds between tests."""

    def delay_s(self, number: int) -> int:  # noqa: ARG002 - the same each time
        """Seconds before each test."""
        return self.every_s


class Exponential(Policy):
    """A delay that grows by a factor up to a maximum."""

    policy: Literal["exponential"] = "exponential"
    """Selects this policy."""
    first_s: Delay = 10
    """Seconds before the first test."""
    factor: Annotated[float, Field(ge=1, le=10)] = 2
    """Growth of the delay from test to test."""
    longest_s: Delay = 300
    """Longest delay in seconds."""

    def delay_s(self, number: int) -> int:
        """Seconds before test `number`."""
        delay = float(self.first_s)
        for _ in range(number):
            if delay >= self.longest_s or self.factor == 1:
                break
            delay *= self.factor
        return min(int(delay), self.longest_s)


class DelayStep(BaseModel):
    """Consecutive tests with the same delay."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    times: Annotated[int, Field(ge=1, le=10_000)]
    every_s: Delay


class Stepwise(Policy):
    """A list of delays, each for a number of tests; the last one repeats."""

    policy: Literal["stepwise"] = "stepwise"
    """Selects this policy."""
    steps: Annotated[tuple[DelayStep, ...], Field(max_length=20)] = (
        DelayStep(times=2, every_s=10),
        DelayStep(times=10, every_s=20),
        DelayStep(times=10, every_s=60),
        DelayStep(times=100, every_s=120),
    )
    """Tables with `times`, a number of tests, and `every_s`, the delay before each of them."""
    then_s: Delay = 300
    """Seconds between tests after the last step."""

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
            raise ValueError("delays must not decrease")
        return self


AnyPolicy = Annotated[Constant | Exponential | Stepwise, Field(discriminator="policy")]
"""Every policy that joblane.toml can choose."""

DEFAULT_POLICY = Stepwise()


_BY_KIND: TypeAdapter[dict[str, AnyPolicy]] = TypeAdapter(
    dict[str, AnyPolicy], config=ConfigDict(defer_build=True)
)


def read_policies(text: str) -> Callable[[str], AnyPolicy]:
    """Read the policies of kinds of conditions, as JSON; gives that of a kind, or the default."""
    by_kind = _BY_KIND.validate_json(text)
    return lambda kind: by_kind.get(kind, DEFAULT_POLICY)
