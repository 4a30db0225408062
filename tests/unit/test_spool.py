"""Output between pipe and CloudWatch: nothing lost, nothing torn, nothing unbounded."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ec2_agent.spool import MAX_RECORD, Cutter, Spool


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


def test_whole_lines_come_at_once_and_the_unfinished_one_waits():
    cutter = Cutter()
    assert [b"one\ntwo\n"] == list(cutter.feed(b"one\ntwo\nthr"))
    assert [b"three\n"] == list(cutter.feed(b"ee\n"))
    assert [] == list(cutter.flush())


def test_records_come_back_in_order_and_count_without_gaps():
    spool = Spool()
    for n in range(10):
        spool.write("stderr" if n % 2 else "stdout", b"line %d\n" % n, 1000 + n)
    first, rest = spool.read(10_000, 3), spool.read(10_000, 100)
    assert list(range(1, 11)) == [record.seq for record in first + rest]
    assert b"line 9\n" == rest[-1].data
    assert not spool.unread
    spool.close()


def test_a_clock_that_steps_back_does_not_reorder_the_stream():
    spool = Spool()
    for time_ms in (5000, 4000, 6000):
        spool.write("stdout", b"x", time_ms)
    assert [5000, 5000, 6000] == [record.time_ms for record in spool.read(100, 100)]
    spool.close()


def test_the_cap_drops_with_one_marker_and_the_disk_does_not_grow():
    spool = Spool(cap=1024 * 1024)
    for _ in range(100):
        spool.write("stdout", b"z" * MAX_RECORD, 1)
    records = spool.read(1 << 30, 1 << 30)
    assert "joblane" == records[-1].stream
    assert 1 == sum(record.stream == "joblane" for record in records)
    assert 1024 * 1024 <= sum(len(r.data) for r in records) < 1024 * 1024 + 2 * MAX_RECORD
    spool.close()


def test_the_spool_leaves_no_name_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    spool = Spool()
    spool.write("stdout", b"secret", 1)
    assert [] == list(tmp_path.iterdir())
    spool.close()
