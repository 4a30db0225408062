"""Ids of jobs and records: ULIDs, which begin with the millisecond in which they were made.

Written by `ulid-transform`. The import of `python-ulid` makes 3 % as many calls as boto3's cold
start: it looks for its own version among the installed distributions.
"""

from typing import Final

_ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_LETTERS: Final = frozenset(_ALPHABET)
_DIGITS: Final = str.maketrans(_ALPHABET, "0123456789abcdefghijklmnopqrstuv")
"""Crockford's letters as those that `int` takes for base 32."""
_BASE = 32
_CHARS = 26
_BYTES = 16
_RANDOM_BITS = 80
_LAST_MS = (1 << 48) - 1


def id_of(number: int) -> str:
    """The id with the value of a number of 128 bits, in Crockford's base 32."""
    # An agent only reads ids, and the library with the C++ runtime takes 0.9 MB of its memory.
    from ulid_transform import bytes_to_ulid

    return bytes_to_ulid(number.to_bytes(_BYTES))


def number_of(text: str) -> int:
    """Inverse of `id_of`. Raises ValueError for what is no id."""
    if len(text) != _CHARS or text[0] > "7" or not _LETTERS.issuperset(text):
        raise ValueError("not a ULID")
    return int(text.translate(_DIGITS), _BASE)


def new_id(at_ms: int, random_bits: int) -> str:
    """An id of a millisecond; `random_bits` is 80 random bits."""
    return id_of(at_ms << _RANDOM_BITS | random_bits)


def first_id(at_ms: int) -> str:
    """The lowest id of a millisecond."""
    return new_id(min(max(at_ms, 0), _LAST_MS), 0)


def block_of_ids(at_ms: int, random_bits: int) -> str:
    """The first of 128 consecutive ids of one millisecond, for the jobs of a batch.

    `random_bits` is 80 random bits, of which the last 7 count the jobs.
    """
    return ids_from(at_ms, random_bits, 128)


def ids_from(at_ms: int, random_bits: int, count: int) -> str:
    """The first of `count` consecutive ids of one millisecond; `random_bits` is 80 random bits.

    With 10,000 ids, 66 of the bits are random.
    """
    bits = (count - 1).bit_length()
    return new_id(at_ms, random_bits >> bits << bits)


def nth_id(first: str, number: int) -> str:
    """The id that follows `first` by `number`."""
    return id_of(number_of(first) + number)


def submitted_ms(job_id: str) -> int:
    """When an id was made, in Unix milliseconds."""
    return number_of(job_id) >> _RANDOM_BITS


def before_id(job_id: str) -> str | None:
    """The next lower id; None below the lowest one.

    DynamoDB takes one condition on a sort key, and its BETWEEN includes both ends.
    """
    number = number_of(job_id)
    return id_of(number - 1) if number else None
