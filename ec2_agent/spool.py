"""A job's output on its way from the disk to CloudWatch: batches, and how far they have come."""

from collections.abc import Callable
from typing import cast

from ec2_agent.shim.log import Reader
from joblane.logs import Record, Stream


class Spool:
    """Records that a shim has written down, in order, each until it has arrived."""

    def __init__(self, reader: Reader, confirm: Callable[[int], None]) -> None:
        """Take over `reader`. `confirm` is told the last record that has arrived."""
        self._reader = reader
        self.confirm = confirm

    @property
    def at(self) -> int:
        """Bytes of the file that have been read."""
        return self._reader.at

    @property
    def unread(self) -> bool:
        """Whether `read` would return something."""
        return self._reader.unread

    def read(self, most_bytes: int, most_records: int) -> list[Record]:
        """Take the next records, together about `most_bytes` of output at most, at least one."""
        records: list[Record] = []
        size = 0
        while self._reader.unread and len(records) < most_records:
            size += self._reader.next_length()
            if records and size > most_bytes:
                break
            seq, stream, time_ms, data = self._reader.read()
            records.append(Record(seq, cast("Stream", stream), time_ms, data))
        return records

    def close(self) -> None:
        """Let go of the file."""
        self._reader.close()
