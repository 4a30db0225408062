"""Job ids: ULIDs, which begin with the millisecond in which they were made."""

from ulid import ULID

_RANDOM_BITS = 80
_LAST_MS = (1 << 48) - 1


def first_id(at_ms: int) -> str:
    """The lowest id of a millisecond."""
    return str(ULID.from_int(min(max(at_ms, 0), _LAST_MS) << _RANDOM_BITS))


def block_of_ids(at_ms: int, dice: int) -> str:
    """The first of 128 consecutive ids of one millisecond, for the jobs of a batch.

    `dice` is 80 random bits, of which the last 7 count the jobs.
    """
    return ids_from(at_ms, dice, 128)


def ids_from(at_ms: int, dice: int, count: int) -> str:
    """The first of `count` consecutive ids of one millisecond; `dice` is 80 random bits.

    With 10,000 ids, 66 of the bits are random.
    """
    bits = (count - 1).bit_length()
    return str(ULID.from_int((at_ms << _RANDOM_BITS) | (dice >> bits << bits)))


def nth_id(first: str, number: int) -> str:
    """The id that follows `first` by `number`."""
    return str(ULID.from_int(int(ULID.from_str(first)) + number))


def submitted_ms(job_id: str) -> int:
    """When an id was made, in Unix milliseconds."""
    return ULID.from_str(job_id).milliseconds


def before_id(job_id: str) -> str | None:
    """The next lower id; None below the lowest one.

    DynamoDB takes one condition on a sort key, and its BETWEEN includes both ends.
    """
    number = int(ULID.from_str(job_id))
    return str(ULID.from_int(number - 1)) if number else None
