"""Adapter for the output of jobs: chunks in the table `output`, large ones in S3.

A stream's rows are its chunks: `seq` is a chunk's first record, `last` its last one, and `data` the
compressed records, or `object` their size in S3. A row is written once and never changed, so a
chunk that a reader has seen stays as it is:

    process of the agent          its successor             table, stream acme/JOB/1
    reads records 1 to 3                                    ...
    puts chunk 1 ------------------------------------>      1: records 1 to 3
    (killed before it notes that)
                                  reads records 1 to 9
                                  puts chunk 1 ------->     refused: has records 1 to 3
                                  reads records 4 to 9
                                  puts chunk 4 ------->     4: records 4 to 9
    a late request of the dead
    process: chunk 4 -------------------------------->      refused

An object is put before the row that names it, under a key with its first and last record: whoever
puts one with the same key puts the same records.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from joblane.aws.bounded import Unreadable, read
from joblane.aws.objects import delete_objects
from joblane.aws.table import ConditionFailed, Row, Store
from joblane.deployment.names import OUTPUT
from joblane.job.chunk import READ_MAX_BYTES, Chunk, DamagedChunk, belongs_in_s3, decode_chunk
from joblane.job.output import SEQ_MAX, OutputRecord

if TYPE_CHECKING:
    from mypy_boto3_dynamodb.client import DynamoDBClient
    from mypy_boto3_s3.client import S3Client

ROWS = 50
"""Rows in one Query. They are read to be decompressed: 50 small ones fill no page, and 50 of the
largest are 400 KB."""

ROWS_BACKWARDS = 4
"""Rows in the first Query from the end of a stream."""

ROWS_DELETED = 1000
"""Chunks that one call of `delete` removes: as many objects as S3 deletes in one request."""

_DAY_S = 86_400


class Read(NamedTuple):
    """A record, and where a reader that has read it continues."""

    record: OutputRecord
    at: int
    """Chunks that begin before this record have been read."""


@dataclass(frozen=True, slots=True)
class OutputRead:
    """Result of one call of `OutputStore.read`."""

    entries: list[Read]
    at: int
    """Chunks that begin before this record have been read."""
    size: int
    """Bytes of output."""
    more: bool
    """Whether there was more to read."""


class OutputStore(Store):
    """Writes and reads chunks. Methods raise Unavailable."""

    def __init__(
        self,
        client: "DynamoDBClient",
        table: str,
        s3: "Callable[[], S3Client]",
        bucket: str,
        *,
        days: int,
        clock: Callable[[], float],
    ) -> None:
        """Keep output for `days`; `clock` gives Unix seconds.

        `s3` makes the S3 client when it is first needed.
        """
        super().__init__(client, table)
        self._s3 = s3
        self._bucket = bucket
        self._days = days
        self._clock = clock

    def write(self, stream: str, chunk: Chunk) -> int:
        """Write a chunk whose first record comes next after those of a stored chunk.

        Returns the last record of the chunk that is stored there: `chunk.last`, or another one if
        an earlier process of the agent has stored a chunk there.
        """
        first, last = chunk.first, chunk.last
        data = chunk.compress()
        content: Row = {"data": data}
        if belongs_in_s3(len(data), self._days):
            key = object_key(stream, first, last)
            self._s3().put_object(Bucket=self._bucket, Key=key, Body=data)
            content = {"object": len(data)}
        row: Row = {
            "stream": stream,
            "seq": first,
            "last": last,
            "expires_at": int(self._clock()) + self._days * _DAY_S,
            **content,
        }
        try:
            self._table.put(row, "attribute_not_exists(#stream)")
        except ConditionFailed as refused:
            return max(int(refused.row["last"]), first)
        return last

    def read(self, stream: str, seq: int, at: int, limit: int, room: int) -> OutputRead:
        """Read at most `limit` records after the number `seq`, by one Query from the chunk `at`.

        `room` bounds the bytes of output of all records but the first. A chunk that has expired or
        is damaged is passed over. S3 refuses a missing object as one that may not be read, because
        no role of Joblane may list the bucket: that is an error, as output must not be missing
        without a word.
        """
        options: dict[str, Any] = {"Limit": min(limit + 1, ROWS), "ConsistentRead": True}
        rows, following = self._table.query(
            "#stream = :stream AND #seq BETWEEN :at AND :most",
            {"stream": stream, "at": at, "most": SEQ_MAX},
            **options,
        )
        entries: list[Read] = []
        size = 0
        for row in rows:
            for record in self._records(row, seq):
                if record.seq <= seq:
                    continue
                if len(entries) == limit or (entries and size + len(record.data) > room):
                    return OutputRead(entries, row["seq"], size, more=True)
                seq, size = record.seq, size + len(record.data)
                entries.append(Read(record, row["seq"] + (seq == row["last"])))
            at = row["seq"] + 1
        return OutputRead(entries, at, size, more=following is not None)

    def backwards(self, stream: str) -> Iterator[tuple[int, list[OutputRecord]]]:
        """Yield the first record's number and the records of each chunk, the last chunk first.

        Objects are read when their turn comes, and rows a few at first, then twice as many at a
        time, so that a reader who stops early has read little.
        """
        limit, before = ROWS_BACKWARDS, SEQ_MAX
        following: Row | None = {}
        while following is not None:
            rows, following = self._table.query(
                "#stream = :stream AND #seq < :before",
                {"stream": stream, "before": before},
                Limit=limit,
                ConsistentRead=True,
                ScanIndexForward=False,
            )
            for row in rows:
                # Records that an overlapping chunk has as well were yielded with that one.
                yield row["seq"], [each for each in self._records(row, 0) if each.seq < before]
                before = row["seq"]
            limit = min(2 * limit, ROWS)

    def delete(self, stream: str) -> bool:
        """Delete the first chunks of a stream; returns whether it has no more.

        One Query, which reads `ROWS_DELETED` or 1 MB at most. Objects go first: until the last row
        is gone the call can be repeated, and no object is left without a row that names it.
        """
        rows, following = self._table.query(
            "#stream = :stream",
            {"stream": stream},
            Limit=ROWS_DELETED,
            ConsistentRead=True,
            ProjectionExpression="#stream, #seq, #last, #object",
        )
        names = [object_key(stream, row["seq"], row["last"]) for row in rows if "object" in row]
        if names:
            delete_objects(self._s3(), self._bucket, names)
        self._table.delete_many([{"stream": stream, "seq": row["seq"]} for row in rows])
        return following is None

    def _records(self, row: Row, seq: int) -> list[OutputRecord]:
        """The records of a chunk that has any after the number `seq`."""
        if row["last"] <= seq or row["expires_at"] <= self._clock():
            return []
        data = row.get("data")
        if data is None:
            key = object_key(row["stream"], row["seq"], row["last"])
            found = self._s3().get_object(Bucket=self._bucket, Key=key)
            try:
                data = read(found["Body"], READ_MAX_BYTES)  # as decompressed
            except Unreadable:
                return []
        try:
            return decode_chunk(data, row["seq"], row["last"])
        except DamagedChunk:
            return []


def object_key(stream: str, first: int, last: int) -> str:
    """The key of a chunk's object: `output/<tenant>/<job>/<epoch>/<first>-<last>`."""
    return f"{OUTPUT}{stream}/{first}-{last}"
