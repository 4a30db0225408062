"""Adapter for dead letters in the `jobs` table: messages that nothing could process."""

from dataclasses import dataclass

from joblane.aws.job.items import RAW, key
from joblane.aws.table import Store

PART_CHARS = 90_000
"""Characters of a body in one item; at most 360 KB in UTF-8."""


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A message that nothing could process."""

    body: str
    source: str
    """Name of the queue that it was in."""
    reason: str


class DeadLetterStore(Store):
    """Stores dead letters."""

    def put(self, letter_id: str, letter: DeadLetter, expires_at: int) -> None:
        """Store a dead letter as SQS delivered it, under a job's id or an id of its own.

        One item holds at most `PART_CHARS` characters: SQS takes 1 MiB, DynamoDB 400 KB.
        """
        for n, start in enumerate(range(0, max(len(letter.body), 1), PART_CHARS)):
            self._table.put(
                {
                    **key(letter_id, RAW if n == 0 else f"{RAW}#{n:02d}"),
                    "body": letter.body[start : start + PART_CHARS],
                    "source": letter.source,
                    "reason": letter.reason,
                    "expires_at": expires_at,
                }
            )

    def place(self, letter_id: str) -> str:
        """Return where a dead letter is stored: the table and its key."""
        return f"{self._table.name}: job_id {letter_id}, sk {RAW}"
