"""Output between pipe and table: nothing lost, nothing torn, nothing unbounded."""

import os
import resource
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ec2_agent.processes import identity, is_running
from ec2_agent.shim import files
from ec2_agent.shim.log import FRAME, MAX_RECORD, Cutter, Reader, Writer
from ec2_agent.shim.masking import NO_SECRETS
from ec2_agent.shim.output import Output
from joblane.job.chunk import Chunk, decode_chunk
from joblane.job.output import OutputRecord


@given(st.lists(st.binary(max_size=3 * MAX_RECORD), max_size=5))
def test_cutting_loses_nothing_and_bounds_every_piece(chunks: list[bytes]):
    cutter = Cutter()
    pieces = [piece for chunk in chunks for piece in cutter.feed(chunk)] + list(cutter.flush())
    assert b"".join(chunks) == b"".join(pieces)
    assert all(0 < len(piece) <= MAX_RECORD for piece in pieces)


@given(st.text(max_size=200), st.lists(st.integers(1, 7), min_size=1))
def test_a_character_is_never_torn_however_it_arrives(text: str, sizes: list[int]):
    data = (text * (1 + MAX_RECORD // max(1, len(text)))).encode()
    cutter, pieces = Cutter(), list[bytes]()
    start = 0
    for n in range(10_000):
        size = sizes[n % len(sizes)] * 4999
        pieces += cutter.feed(data[start : start + size])
        start += size
        if start >= len(data):
            break
    pieces += cutter.flush()
    assert data.decode() == "".join(piece.decode() for piece in pieces)


@given(st.text(min_size=1, max_size=9), st.integers(1, 30))
def test_a_flush_keeps_back_what_is_no_whole_character_and_no_more(text: str, size: int):
    data = text.encode()
    cutter, pieces = Cutter(), list[bytes]()
    for at in range(0, len(data), size):
        pieces += cutter.feed(data[at : at + size])
        pieces += cutter.flush_characters()
        held = data[: at + size][sum(map(len, pieces)) :]
        assert len(held) <= 3
        assert "" == held.decode(errors="ignore")
    assert [] == list(cutter.flush())
    assert text == "".join(piece.decode() for piece in pieces)


@given(st.binary(max_size=20))
def test_a_flush_of_bytes_that_are_no_text_keeps_back_three_at_most(data: bytes):
    cutter = Cutter()
    pieces = [*cutter.feed(data), *cutter.flush_characters()]
    assert len(b"".join(pieces)) >= len(data) - 3
    assert data == b"".join([*pieces, *cutter.flush()])


def test_the_time_of_a_record_is_that_of_the_read_of_its_first_byte(tmp_path: Path):
    reader, writer = os.pipe()
    log = Log(tmp_path / "log")
    output = Output({reader: "stdout"}, log.writer, NO_SECRETS)
    os.write(writer, b"no end")
    assert output.read(reader)
    read_by_ms = time.time_ns() // 1_000_000
    time.sleep(0.01)
    output.flush()
    os.close(writer)
    output.finish()
    *_, time_ms, data = log.spool().read()
    assert b"no end" == data
    assert time_ms <= read_by_ms


def test_whole_lines_come_at_once_and_the_unfinished_one_waits():
    cutter = Cutter()
    assert [b"one\ntwo\n"] == list(cutter.feed(b"one\ntwo\nthr"))
    assert [b"three\n"] == list(cutter.feed(b"ee\n"))
    assert [] == list(cutter.flush())


class Log:
    """A log with both of its ends."""

    def __init__(self, path: Path, cap: int = 1 << 30) -> None:
        self.path = path
        self._fds: list[int] = []
        self.writer = Writer(self._open(os.O_WRONLY | os.O_CREAT), cap)

    def _open(self, flags: int) -> int:
        self._fds.append(os.open(self.path, flags))
        return self._fds[-1]

    def __del__(self) -> None:
        for fd in self._fds:
            os.close(fd)

    def spool(self, after: int = 0) -> Reader:
        """Read it, behind a record."""
        return Reader(self._open(os.O_RDONLY), after)


ALL = 1 << 20


def take(spool: Reader, size: int = ALL) -> list[OutputRecord]:
    """Read what the next chunk has, as the shipper does."""
    first = spool.seq + 1
    last, frames = spool.frames(size)
    spool.skip(last)
    return decode_chunk(Chunk(first, last, frames).compress(), first, last) if frames else []


@pytest.fixture(name="log")
def _log(tmp_path: Path) -> Log:
    return Log(tmp_path / "log")


def test_records_come_back_in_order_and_count_without_gaps(log: Log):
    spool = log.spool()
    for n in range(10):
        log.writer.write("stderr" if n % 2 else "stdout", b"line %d\n" % n, 1000 + n)
    first, rest = take(spool, 3 * (FRAME.size + 7)), take(spool)
    assert list(range(1, 11)) == [record.seq for record in first + rest]
    assert b"line 9\n" == rest[-1].data
    assert ["stdout", "stderr"] == [record.stream for record in first[:2]]
    assert not spool.unread


def test_a_chunk_has_whole_records_and_no_more_bytes_than_it_may(log: Log):
    for _ in range(4):
        log.writer.write("stdout", b"x" * 100, 1)
    spool = log.spool()
    frame = FRAME.size + 100
    assert [0, 1, 2, 1, 0] == [
        len(take(spool, size)) for size in (frame - 1, frame, 3 * frame - 1, ALL, ALL)
    ]


def test_a_reader_skips_what_is_stored_whether_it_has_seen_it_or_not(log: Log):
    for n in range(1, 7):
        log.writer.write("stdout", b"%d" % n, 1)
    spool = log.spool()
    spool.frames(ALL)
    spool.skip(2)
    assert [3, 4] == [record.seq for record in take(spool, 2 * (FRAME.size + 1))]
    spool.frames(FRAME.size + 1)
    spool.skip(100)
    assert (6, False) == (spool.seq, spool.unread)
    log.writer.write("stdout", b"7", 1)
    assert [7] == [record.seq for record in take(spool)]


def test_a_reader_goes_on_where_an_earlier_one_was(log: Log):
    for n in range(5):
        log.writer.write("stdout", b"%d" % n, 1)
    assert [4, 5] == [record.seq for record in take(log.spool(3))]
    spool = log.spool(5)
    assert not spool.unread
    log.writer.write("stdout", b"5", 1)
    assert [b"5"] == [record.data for record in take(spool)]


def test_a_clock_that_steps_back_does_not_reorder_the_stream(log: Log):
    for time_ms in (5000, 4000, 6000):
        log.writer.write("stdout", b"x", time_ms)
    assert [5000, 5000, 6000] == [record.time_ms for record in take(log.spool())]


def test_the_cap_drops_with_one_marker_and_the_disk_does_not_grow(tmp_path: Path):
    log = Log(tmp_path / "log", cap=1024 * 1024)
    for _ in range(100):
        log.writer.write("stdout", b"z" * MAX_RECORD, 1)
    records = take(log.spool(), 1 << 30)
    assert "joblane" == records[-1].stream
    assert 1 == sum(record.stream == "joblane" for record in records)
    assert 1024 * 1024 <= sum(len(r.data) for r in records) < 1024 * 1024 + 2 * MAX_RECORD
    assert len(records) == log.writer.seq


def test_a_log_cut_at_any_byte_has_the_records_that_are_whole_and_no_others(log: Log):
    sizes = []
    for n in range(6):
        log.writer.write("stdout", b"record %d" % n * n, n)
        sizes.append(log.writer.size)
    whole = log.path.read_bytes()
    for cut in range(len(whole) + 1):
        log.path.write_bytes(whole[:cut])
        records = take(log.spool())
        assert list(range(1, sum(size <= cut for size in sizes) + 1)) == [r.seq for r in records]
        after = log.spool(3)
        assert [r.seq for r in records[3:]] == [r.seq for r in take(after)]


@given(st.binary(max_size=200))
def test_garbage_behind_the_last_record_is_not_read_as_one(data: bytes):
    if data[:8] == FRAME.pack(2, 0, 0, 0)[:8]:
        return
    path = Path("/dev/shm") / f"joblane-test-{os.getpid()}"
    log = Log(path)
    log.writer.write("stdout", b"one", 1)
    path.write_bytes(path.read_bytes() + data)
    assert [1] == [record.seq for record in take(log.spool())]
    path.unlink()


@pytest.mark.parametrize("left", [0, 5], ids=["nothing is written", "a part is written"])
def test_a_full_disk_costs_output_and_says_so(log: Log, left: int):
    log.writer.write("stdout", b"before", 1)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (log.writer.size + left, hard))
    try:
        for _ in range(5):
            log.writer.write("stderr", b"lost", 2)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert log.writer.lost == 5 * len(b"lost")
    log.writer.write("stdout", b"after", 3)
    records = take(log.spool())
    assert ["stdout", "joblane", "stdout"] == [record.stream for record in records]
    assert b"output is missing here" in records[1].data


def test_a_file_cut_at_any_byte_is_none_or_as_it_was(tmp_path: Path):
    folder = os.open(tmp_path, os.O_RDONLY)
    value = {"ending": {"exit_code": 0, "error": "wörter"}, "records": 12, "killed": False}
    files.write(folder, files.EXIT, value, durable=True)
    assert [files.EXIT] == [entry.name for entry in tmp_path.iterdir()]
    whole = (tmp_path / files.EXIT).read_bytes()
    for cut in range(len(whole)):
        (tmp_path / files.EXIT).write_bytes(whole[:cut])
        assert None is files.read(folder, files.EXIT), cut
    (tmp_path / files.EXIT).write_bytes(whole)
    assert value == files.read(folder, files.EXIT)
    assert None is files.read(folder, files.SPEC)
    os.close(folder)


def test_a_process_is_known_by_more_than_its_number():
    me = identity(os.getpid())
    assert is_running(me)
    assert not is_running({**me, "started": me["started"] + 1})
    assert not is_running({**me, "boot": "another"})
    assert not is_running({**me, "pid": 1 << 22, "started": None})
