"""Calls to the `jobs` table that every job makes: its claim and the end of its attempt."""

from collections.abc import Mapping
from functools import partial
from typing import Any

from ec2_agent.aws_calls.direct import DirectCalls, call_either
from ec2_agent.calls import in_thread
from joblane.aws.job.jobs import JobStore
from joblane.aws.table import Row, decode
from joblane.job.head import Head
from joblane.job.message import Message
from joblane.job.moves import AttemptFacts
from joblane.state.timeline import Step


class ClaimCalls:
    """Claims jobs, and ends their attempts. Methods raise Refused, ClientError, BotoCoreError."""

    def __init__(self, store: JobStore, direct: DirectCalls | None = None) -> None:
        """Without `direct` every call is made through botocore."""
        self.store = store
        """For all other calls, which block."""
        self._direct = direct

    async def claim(self, message: Message, agent: str, now_ms: int) -> Head:
        """Take a waiting job: see `JobClaims.claim`.

        A job whose submission is in another item takes a second call, in a thread.
        """
        store = self.store

        async def directly(direct: DirectCalls) -> Head:
            request = store.claim_request(message, agent, now_ms)
            row = await direct.call("UpdateItem", request, _row)
            if "spec" in row:
                return store.decode_claim(row)
            return await in_thread(partial(store.decode_claim, row), "claim")

        return await call_either(
            self._direct, directly, partial(store.claim, message, agent, now_ms), "claim"
        )

    async def settle(self, head: Head, step: Step, facts: AttemptFacts) -> None:
        """End an attempt: see `JobClaims.settle`."""

        async def directly(direct: DirectCalls) -> None:
            request = self.store.settle_request(head, step, facts)
            await direct.call("UpdateItem", request, _nothing)

        def through_botocore() -> None:
            self.store.settle(head, step, facts)

        await call_either(self._direct, directly, through_botocore, "settle")


def _row(answer: Mapping[str, Any]) -> Row:
    return decode(answer["Attributes"])


def _nothing(answer: Mapping[str, Any]) -> None:
    if not isinstance(answer, dict):
        raise TypeError("not an object")
