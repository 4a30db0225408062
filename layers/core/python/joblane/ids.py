"""Job ids as places in time: a ULID begins with the millisecond in which it was made. Pure."""

from ulid import ULID

_RANDOM_BITS = 80
_LAST_MS = (1 << 48) - 1


def first_id(at_ms: int) -> str:
    """The least id that a job of this millisecond, or of a later one, can have."""
    return str(ULID.from_int(min(max(at_ms, 0), _LAST_MS) << _RANDOM_BITS))


def block_of_ids(at_ms: int, dice: int) -> str:
    """The first of 128 ids of one millisecond that follow each other: those of a batch.

    `dice` is 80 random bits, of which the last 7 count the jobs.
    """
    return str(ULID.from_int((at_ms << _RANDOM_BITS) | (dice >> 7 << 7)))


def nth_id(first: str, number: int) -> str:
    """The id that stands `number` places behind."""
    return str(ULID.from_int(int(ULID.from_str(first)) + number))


def before_id(job_id: str) -> str | None:
    """The id just below, whether a job has it or not; None below the least one.

    For DynamoDB, which takes one condition on a sort key: BETWEEN, with both ends in it.
    """
    number = int(ULID.from_str(job_id))
    return str(ULID.from_int(number - 1)) if number else None
