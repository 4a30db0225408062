"""What follows the end of a job with a key: its slot goes to the job that waits first.

A batch of the stream becomes one release of each key in it (`joblane.service.key_release`). A batch
that is delivered again changes nothing.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import KW_ONLY, dataclass
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from joblane.aws.job_ends import read_end
from joblane.aws.keys import KeyChanged
from joblane.key.decide import End
from joblane.key.segments import KeyName
from joblane.service.key_release import KeyRelease
from joblane.service.log import Log

AT_ONCE = 8
"""Keys that are handled at the same time; each waits for AWS most of the time."""

Keyed = tuple[str, KeyName]
"""A tenant and the name of one of its keys."""


@dataclass(frozen=True)
class Sequel:
    """Handles batches of the stream."""

    keys: KeyRelease
    _: KW_ONLY
    put_aside: Callable[[Mapping[str, Any]], None]
    """Sends the description of what cannot be handled to an operator."""
    log: Log
    pool: Callable[[int], Executor] = ThreadPoolExecutor
    """Makes an executor of that many workers."""

    def handle(self, records: Iterable[Mapping[str, Any]]) -> int:
        """Handle a batch of stream records; returns how many jobs got a slot.

        A record or a key that cannot be handled is put aside, so that it does not block the stream.
        Raises ClientError, BotoCoreError and KeyChanged, after all other keys of the batch, when a
        table or a lane cannot be reached; Lambda then delivers the batch again.
        """
        with self.pool(AT_ONCE) as pool:
            results = list(pool.map(self._one, self._ends(records).items()))
        for result in results:
            if isinstance(result, Exception):
                raise result
        return sum(result for result in results if isinstance(result, int))

    def _ends(self, records: Iterable[Mapping[str, Any]]) -> dict[Keyed, list[End]]:
        found: defaultdict[Keyed, list[End]] = defaultdict(list)
        for record in records:
            try:
                ended = read_end(record)
            except Exception as error:
                # One record must never block the stream.
                self.log.exception("stream record put aside")
                stream = record.get("dynamodb") or {}
                self._put_aside(
                    f"a stream record cannot be read: {type(error).__name__}",
                    keys=stream.get("Keys"),
                    sequence=stream.get("SequenceNumber"),
                )
                continue
            if ended is not None:
                found[ended.tenant, ended.key].append(ended.end)
        return found

    def _one(self, ended: tuple[Keyed, list[End]]) -> int | Exception:
        """Handle the ends of one key. Returns how many jobs got a slot, or why to come again."""
        (tenant, key), ends = ended
        names = {"key": f"{tenant}#{key.encode()}", "jobs": [end.job_id for end in ends]}
        try:
            return self.keys.release(tenant, key, ends)
        except (BotoCoreError, ClientError, KeyChanged) as error:
            self.log.exception("jobs of a key ended, which will be handled again", **names)
            return error
        except Exception as error:
            # One key must never block those of others.
            self.log.exception("ends of jobs put aside", **names)
            self._put_aside(f"a key cannot be handled: {type(error).__name__}", **names)
            return 0

    def _put_aside(self, problem: str, **details: object) -> None:
        """Describe to an operator what cannot be handled, without the content of jobs."""
        try:
            self.put_aside({"source": "sequel", "problem": problem, **details})
        except (BotoCoreError, ClientError):
            self.log.exception("could not be put aside; it is in this log only")
