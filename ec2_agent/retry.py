"""Retries with exponential backoff and jitter: the one retry loop of the agent."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TypeVar

from ec2_agent.calls import AWS_ERRORS

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How often a call is retried, and after which pauses."""

    first_s: float
    """Longest pause after the first failure."""
    longest_s: float
    factor: float = 2.0
    """How many times longer each pause is than the one before."""
    retries: int | None = None
    """At most so many retries; None: until the call succeeds."""


AWS_RETRY = RetryPolicy(first_s=0.2, longest_s=5.0)
"""For calls to AWS that must succeed. The SDK's own tries come first (`clients.QUICK`)."""


@dataclass(slots=True)
class Backoff:
    """The pauses of one series of failures."""

    policy: RetryPolicy
    sleep: Callable[[float], Awaitable[object]] = asyncio.sleep
    rng: Callable[[], float] = random.random
    """Gives numbers from 0 to 1."""
    _failures: int = field(default=0, init=False)

    @property
    def exhausted(self) -> bool:
        """Whether no further retry is allowed."""
        return self.policy.retries is not None and self._failures >= self.policy.retries

    async def pause(self) -> None:
        """Sleep after a failure, between half and all of the time that the policy gives."""
        policy = self.policy
        # 2**64 is beyond every `longest_s`, and a float's exponent stays in range.
        ceiling = min(policy.longest_s, policy.first_s * policy.factor ** min(self._failures, 64))
        self._failures += 1
        await self.sleep(ceiling * (1 + self.rng()) / 2)

    def reset(self) -> None:
        """Start again from the first pause, after a success."""
        self._failures = 0


def aws_backoff() -> Backoff:
    """Pauses between calls to AWS that must succeed."""
    return Backoff(AWS_RETRY)


def is_aws_error(error: Exception) -> bool:
    """Whether a call failed because AWS refused it or could not be reached."""
    return isinstance(error, AWS_ERRORS)


async def retry(
    call: Callable[[], Awaitable[T]],
    backoff: Backoff,
    *,
    retryable: Callable[[Exception], bool] = is_aws_error,
    proceed: Callable[[], bool] = lambda: True,
    event: Callable[[Exception], None] | None = None,
) -> T:
    """Make a call until it succeeds.

    `event` makes what is logged at the first failure; later failures are not logged. `proceed`
    is asked before and after each pause. Raises the call's error when it is not retryable, the
    policy allows no further retry, or `proceed` returns False.
    """
    while True:
        try:
            return await call()
        except Exception as error:
            if not retryable(error):
                raise
            if event is not None:
                event(error)
                event = None  # logged once
            if backoff.exhausted or not proceed():
                raise
            await backoff.pause()
            if not proceed():
                raise
