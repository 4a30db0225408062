"""Chunks of output: what is written is read, once and in order, from the table and from S3."""

import random
import time
import zlib
from typing import Any

import pytest
from botocore.exceptions import ClientError
from hypothesis import given
from hypothesis import strategies as st

from ec2_agent.shim import log as shim_log
from joblane.aws.errors import AwsRefused
from joblane.aws.job.output_store import OutputRead, OutputStore, object_key
from joblane.formats.levels import Level
from joblane.job.chunk import (
    CHUNK_BYTES,
    FRAME,
    LEVEL_CODES,
    PUT_DOLLARS,
    READ_MAX_BYTES,
    S3_GB_MONTH_DOLLARS,
    STREAMS,
    TABLE_GB_MONTH_DOLLARS,
    WRITE_UNIT_DOLLARS,
    Chunk,
    DamagedChunk,
    belongs_in_s3,
    decode_chunk,
)
from joblane.job.output import SEQ_MAX, OutputRecord, Stream
from scripts.costs import prices
from tests.support.aws import DESCRIPTOR, Cloud, objects, output_store
from tests.support.jobs import JOB

STREAM = f"acme/{JOB}/1"
DAY_S = 86_400

CONTENTS = st.lists(
    st.tuples(
        st.sampled_from(STREAMS),
        st.integers(0, 1 << 41),
        st.binary(max_size=300) | st.text(max_size=100).map(str.encode),
        st.sampled_from(LEVEL_CODES),
    ),
    min_size=1,
)


Content = tuple[Stream, int, bytes, Level | None]


def numbered(contents: list[Content], first: int = 1) -> list[OutputRecord]:
    return [OutputRecord(first + n, *content) for n, content in enumerate(contents)]


def lines(first: int, last: int, size: int = 8) -> list[OutputRecord]:
    """Records of random bytes, which do not get smaller by compression."""
    source = random.Random(first)
    return [
        OutputRecord(seq, "stdout", seq, source.randbytes(size)) for seq in range(first, last + 1)
    ]


def compress(records: list[OutputRecord]) -> bytes:
    return Chunk.of(records).compress()


def write(store: OutputStore, records: list[OutputRecord]) -> int:
    return store.write(STREAM, Chunk.of(records))


# --- the encoding


@given(CONTENTS, st.integers(1, SEQ_MAX))
def test_records_survive_a_chunk_whatever_their_bytes(contents: list[Content], first: int):
    records = numbered(contents, first)
    assert records == decode_chunk(compress(records), first, records[-1].seq)


def test_a_chunk_has_the_records_of_the_shims_log_as_they_are():
    assert shim_log.FRAME.format == FRAME.format
    assert shim_log.STREAMS == STREAMS
    assert shim_log.LEVELS == LEVEL_CODES
    assert shim_log.MAX_RECORD < CHUNK_BYTES


@given(st.data())
def test_a_chunk_that_was_changed_is_refused_and_never_read_as_another(data: st.DataObject):
    whole = compress(lines(4, 6))
    at = data.draw(st.integers(0, len(whole) - 1))
    cut = data.draw(st.booleans())
    changed = whole[:at] if cut else whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :]
    try:
        found = decode_chunk(changed, 4, 6)
    except DamagedChunk:
        return
    assert lines(4, 6) == found  # a bit of zlib's header that says nothing of the content


@pytest.mark.parametrize(("first", "last"), [(3, 6), (5, 6), (4, 5), (4, 7)])
def test_a_chunk_with_other_records_than_its_row_names_is_refused(first: int, last: int):
    with pytest.raises(DamagedChunk):
        decode_chunk(compress(lines(4, 6)), first, last)


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"x",
        FRAME.pack(1, 0, 0, 5) + b"four",
        FRAME.pack(1, 3, 0, 0),
        FRAME.pack(1, 6 << 4, 0, 0),
        FRAME.pack(1, 0, 0, 0) + b"x",
    ],
    ids=["empty", "no header", "cut", "unknown stream", "unknown level", "cut header"],
)
def test_garbage_that_decompresses_is_refused(raw: bytes):
    with pytest.raises(DamagedChunk):
        decode_chunk(zlib.compress(raw), 1, 1)


def test_a_chunk_that_would_fill_the_memory_is_refused():
    bomb = zlib.compress(FRAME.pack(1, 0, 0, 1 << 30) + bytes(READ_MAX_BYTES))
    assert len(bomb) < 10_000
    with pytest.raises(DamagedChunk, match="more than"):
        decode_chunk(bomb, 1, 1)


# --- where a chunk goes


@pytest.mark.parametrize(("days", "limit"), [(1, 8065), (7, 8065), (90, 3969), (365, 1701)])
def test_a_chunk_goes_where_it_costs_less(days: int, limit: int):
    assert [False, True] == [belongs_in_s3(size, days) for size in (limit - 1, limit)]


@given(st.integers(1, 400_000), st.integers(1, 3653))
def test_no_chunk_is_too_large_for_the_table(size: int, days: int):
    assert size < 10_000 or belongs_in_s3(size, days)


def test_the_prices_are_those_of_the_table_of_prices():
    ours = (WRITE_UNIT_DOLLARS, PUT_DOLLARS, TABLE_GB_MONTH_DOLLARS, S3_GB_MONTH_DOLLARS)
    theirs = (prices.WRITE_UNIT, prices.S3_PUT, prices.TABLE_GB, prices.S3_GB)
    assert tuple(price.of(1) for price in theirs) == pytest.approx(ours)


# --- the store


class Reader:
    """Reads a stream to its end, as a client does with its cursor."""

    def __init__(self, store: OutputStore, limit: int = 1000, room: int = 1 << 20) -> None:
        self._store, self._limit, self._room = store, limit, room
        self.seq, self.at = 0, 1

    def once(self) -> OutputRead:
        """Read once."""
        read = self._store.read(STREAM, self.seq, self.at, self._limit, self._room)
        assert len(read.entries) <= self._limit
        assert sum(len(entry.record.data) for entry in read.entries) == read.size
        self.seq = read.entries[-1].record.seq if read.entries else self.seq
        self.at = read.at
        return read

    def all(self) -> list[OutputRecord]:
        """Read to the end."""
        records: list[OutputRecord] = []
        for _ in range(1000):
            read = self.once()
            records += [entry.record for entry in read.entries]
            if not read.more:
                return records
        raise AssertionError("reading does not end")


def rows(aws: Cloud) -> list[Any]:
    table = aws.clients.make("dynamodb")
    return table.scan(TableName=DESCRIPTOR.output_table)["Items"]


SIZES = [1, 400, 20_000]
"""Bytes of a record: of chunks in the table, and of one in S3."""


@pytest.mark.parametrize(("limit", "room"), [(1, 1), (2, 1 << 20), (1000, 30_000), (1000, 1 << 20)])
def test_chunks_in_both_places_are_read_once_and_in_order(aws: Cloud, limit: int, room: int):
    written = [*lines(1, 2, SIZES[0]), *lines(3, 5, SIZES[2]), *lines(6, 6, SIZES[1])]
    assert 2 == write(aws.output, written[:2])
    assert 5 == write(aws.output, written[2:5])
    assert 6 == write(aws.output, written[5:])
    assert [f"output/{STREAM}/3-5"] == objects(aws)
    assert written == Reader(aws.output, limit, room).all()


def test_a_reader_may_begin_after_any_record(aws: Cloud):
    for first in (1, 4, 7):
        write(aws.output, lines(first, first + 2))
    entries = aws.output.read(STREAM, 0, 1, 100, 1 << 20).entries
    assert 9 == len(entries)
    for entry in entries:
        rest = aws.output.read(STREAM, entry.record.seq, entry.at, 100, 1 << 20)
        assert list(range(entry.record.seq + 1, 10)) == [e.record.seq for e in rest.entries]


def test_a_reader_at_the_end_is_told_what_comes_and_does_not_read_the_rest_again(aws: Cloud):
    reader = Reader(aws.output)
    assert [] == reader.all()
    write(aws.output, lines(1, 3))
    assert lines(1, 3) == reader.all()
    assert (3, 2) == (reader.seq, reader.at)
    assert [] == reader.all()
    write(aws.output, lines(4, 4))
    assert lines(4, 4) == reader.all()


def test_hundreds_of_chunks_are_read_by_few_queries(aws: Cloud):
    for seq in range(1, 121):
        write(aws.output, lines(seq, seq))
    reader, reads = Reader(aws.output), 0
    while reader.once().more:
        reads += 1
    assert (120, 2) == (reader.seq, reads)


def test_a_row_has_the_key_of_its_tenant_and_expires(aws: Cloud):
    store = output_store(aws.clients, lambda: 1_800_000_000.9)
    write(store, lines(1, 2))
    write(store, lines(3, 3, 20_000))
    small, large = sorted(rows(aws), key=lambda row: int(row["seq"]["N"]))
    expires = {"N": str(1_800_000_000 + DESCRIPTOR.retention.logs_days * DAY_S)}
    assert ({"S": STREAM}, {"N": "2"}, expires) == (
        small["stream"],
        small["last"],
        small["expires_at"],
    )
    assert {"B": compress(lines(1, 2))} == small["data"]
    assert "object" not in small
    assert {"N": str(len(compress(lines(3, 3, 20_000))))} == large["object"]
    assert "data" not in large


def test_output_that_has_expired_is_passed_over_wherever_it_was(aws: Cloud):
    now = [1_800_000_000.0]
    store = output_store(aws.clients, lambda: now[0])
    write(store, lines(1, 1))
    write(store, lines(2, 2, 20_000))
    now[0] += 10
    write(store, lines(3, 3))
    now[0] += DESCRIPTOR.retention.logs_days * DAY_S - 10
    aws.clients.make("s3").delete_object(Bucket=DESCRIPTOR.bucket, Key=object_key(STREAM, 2, 2))
    assert lines(3, 3) == Reader(store).all()


def test_a_missing_object_is_an_error_and_not_the_end(aws: Cloud):
    write(aws.output, lines(1, 1, 20_000))
    aws.clients.make("s3").delete_object(Bucket=DESCRIPTOR.bucket, Key=object_key(STREAM, 1, 1))
    with pytest.raises(ClientError):
        Reader(aws.output).once()


def put(aws: Cloud, seq: int, last: int, data: bytes) -> None:
    """Write any row, as an agent could that a job has taken over."""
    aws.clients.make("dynamodb").put_item(
        TableName=DESCRIPTOR.output_table,
        Item={
            "stream": {"S": STREAM},
            "seq": {"N": str(seq)},
            "last": {"N": str(last)},
            "expires_at": {"N": str(int(time.time()) + DAY_S)},
            "data": {"B": data},
        },
    )


def test_a_damaged_chunk_is_passed_over(aws: Cloud):
    write(aws.output, lines(1, 2))
    put(aws, 3, 5, b"garbage")
    put(aws, 6, 6, compress(lines(60, 60)))
    write(aws.output, lines(7, 8))
    put(aws, SEQ_MAX + 1, SEQ_MAX + 1, compress(lines(SEQ_MAX + 1, SEQ_MAX + 1)))
    assert [*lines(1, 2), *lines(7, 8)] == Reader(aws.output).all()


def test_chunks_that_overlap_are_read_once(aws: Cloud):
    put(aws, 1, 6, compress(lines(1, 6)))
    put(aws, 3, 4, compress(lines(3, 4)))
    put(aws, 5, 8, compress(lines(5, 8)))
    assert list(range(1, 9)) == [record.seq for record in Reader(aws.output, limit=2).all()]


# --- two writers of one stream


@pytest.mark.parametrize("size", SIZES)
def test_a_chunk_that_is_stored_stays_as_it_is(aws: Cloud, size: int):
    """A successor that does not know of it goes on after it, and a late write changes nothing."""
    written = lines(1, 9, size)
    assert 3 == write(aws.output, written[:3])
    assert 3 == write(aws.output, written)
    assert 9 == write(aws.output, written[3:])
    assert 9 == write(aws.output, written[3:5])
    assert 3 == write(aws.output, written[:1])
    assert written == Reader(aws.output).all()


def test_a_row_that_says_nothing_useful_does_not_stop_a_writer(aws: Cloud):
    put(aws, 1, 0, b"")
    assert 1 == write(aws.output, lines(1, 3))


@pytest.mark.parametrize("operation", ["PutObject", "PutItem"])
@pytest.mark.parametrize("when", ["before-call", "after-call"])
def test_a_write_that_failed_at_any_moment_is_repeated_without_harm(
    aws: Cloud, operation: str, when: str
):
    failures = [AwsRefused({"Error": {"Code": "InternalError"}}, operation)]

    def fail(**_: Any) -> None:
        if failures:
            raise failures.pop()

    service = "s3" if operation == "PutObject" else "dynamodb"
    aws.emitter().register(f"{when}.{service}.{operation}", fail)
    store = output_store(aws.clients)
    with pytest.raises(ClientError):
        write(store, lines(1, 3, 20_000))
    assert 3 == write(store, lines(1, 3, 20_000))
    assert lines(1, 3, 20_000) == Reader(store).all()
