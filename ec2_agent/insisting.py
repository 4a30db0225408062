"""What an attempt must have of AWS before its job starts, however long that takes."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from typing import TypeVar

from botocore.exceptions import BotoCoreError, ClientError

from ec2_agent.calls import in_thread, pause_s
from ec2_agent.decisions import Ask, Verdicted, of_asked
from ec2_agent.events import StartWaits
from ec2_agent.log_event import tell
from joblane.head import Head

T = TypeVar("T")


class NotStarted(Exception):
    """The attempt came to an end before its job was started."""

    def __init__(self, verdict: Verdicted) -> None:
        super().__init__(verdict.why)
        self.verdict = verdict


@dataclass(frozen=True, slots=True)
class Insisting:
    """Makes calls for one attempt."""

    head: Head
    asked: Callable[[], Ask | None]
    """Why the attempt is to end, if anybody has asked for it."""
    now_ms: Callable[[], int]

    async def call(self, call: Callable[[], T], what: str) -> T:
        """Make a call until AWS answers; `what` names what the job waits for.

        Raises what the call raises beside AWS's errors, and NotStarted if somebody asks for the
        attempt's end meanwhile.
        """
        for tries in count():
            try:
                return await in_thread(call, what)
            except (BotoCoreError, ClientError) as error:
                if tries == 0:
                    tell(StartWaits(self.head.job_id, what, error))
            if (ask := self.asked()) is not None:
                raise NotStarted(of_asked(self.head, ask, self.now_ms(), "before it was started"))
            await asyncio.sleep(pause_s(tries))
        raise AssertionError("count ended")
