"""The secrets of a job, read just before it starts: fresh for each attempt, kept nowhere."""

import asyncio
import logging
from collections.abc import Callable
from itertools import count

from botocore.exceptions import BotoCoreError, ClientError

from ec2_agent.calls import in_thread
from ec2_agent.decisions import Ask, Verdicted, of_told
from joblane.aws.secret_store import SecretProblem, SecretStore
from joblane.head import Head
from joblane.lifecycle import Outcome

RETRY_S = (0.2, 0.5, 1.0, 2.0, 5.0)

log = logging.getLogger(__name__)


class NotStarted(Exception):
    """The attempt came to an end before its job was started."""

    def __init__(self, verdict: Verdicted) -> None:
        super().__init__(verdict.why)
        self.verdict = verdict


async def read_secret_env(
    store: SecretStore, head: Head, asked: Callable[[], Ask | None], now_ms: Callable[[], int]
) -> dict[str, str]:
    """Read the values of `secret_env`; trouble of AWS is waited out.

    Raises NotStarted: a secret cannot be had, or somebody asked for the end meanwhile.
    """
    references = head.spec.secret_env
    if not references:
        return {}
    for tries in count():
        try:
            return await in_thread(lambda: store.read(references, head.tenant), "secrets")
        except SecretProblem as problem:
            raise NotStarted(Verdicted(Outcome.PERMANENT, f"not started: {problem}")) from None
        except (BotoCoreError, ClientError) as error:
            if tries == 0:
                log.warning("job %s: its secrets wait for AWS: %s", head.job_id, error)
        match asked():
            case Ask.TOLD:
                raise NotStarted(of_told(head, now_ms(), "before it was started"))
            case Ask.LEAVING:
                why = "interrupted because its agent is leaving"
                raise NotStarted(Verdicted(Outcome.INTERRUPTED, why))
        await asyncio.sleep(RETRY_S[min(tries, len(RETRY_S) - 1)])
    raise AssertionError("count ended")
