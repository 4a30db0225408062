"""Levels of log records, from a handler's mark to a record of the shim's log."""

import logging
import os
from itertools import groupby
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ec2_agent.shim.levels import LEVEL_OF, MARK, Levels
from ec2_agent.shim.log import CAP_BYTES, FRAME, Reader, Writer
from ec2_agent.shim.masking import NO_SECRETS, Secrets
from ec2_agent.shim.output import Output
from joblane.formats.levels import LEVELS
from joblane.handler.levels import mark
from joblane.job.chunk import Chunk, decode_chunk
from joblane.job.output import OutputRecord

MARKED = b"\x1e4one\n"
TEXT = st.text(alphabet="ab\n\x1e4<9\u00fc", max_size=12)
NUMBERS = st.sampled_from([0, 10, 15, 20, 25, 30, 40, 50, 99])


def split(data: bytes, sizes: list[int]) -> list[tuple[str | None, bytes]]:
    """What comes in pieces of these sizes; neighbours of one level are joined."""
    levels, runs, at = Levels(), list[tuple[str | None, bytes]](), 0
    for size in [*sizes, len(data)]:
        found = list(levels.split(data[at : at + size]))
        assert all(run for _, run in found)
        assert sum(len(run) for _, run in found) <= size + 1
        runs += found
        at += size
    runs += levels.flush()
    return [
        (level, b"".join(run for _, run in same))
        for level, same in groupby(runs, key=lambda run: run[0])
    ]


@given(st.binary().filter(lambda data: MARK not in data), st.lists(st.integers(0, 9)))
def test_a_stream_without_marks_is_not_changed(data: bytes, sizes: list[int]):
    assert split(data, sizes) == ([(None, data)] if data else [])


@given(st.binary(max_size=20), st.lists(st.integers(0, 3)))
@example(b"a\x1e\x1e9\x1e", [2])
def test_a_mark_that_is_none_stays(data: bytes, sizes: list[int]):
    other = data.translate(bytes.maketrans(bytes(LEVEL_OF), b"x" * len(LEVEL_OF)))
    assert b"".join(run for _, run in split(other, sizes)) == other


@given(st.lists(st.tuples(TEXT, NUMBERS), max_size=4), st.lists(st.integers(0, 5), max_size=40))
@example([("\x1e2a\n\x1e2b\n", 20), ("", 40)], [1] * 40)
def test_all_lines_of_a_record_have_its_level_whatever_they_contain(
    records: list[tuple[str, int]], sizes: list[int]
):
    """Nothing in the text of a record gives another level, to its lines or to what follows it."""
    written = "".join(f"{mark(text, number)}\nprinted\n" for text, number in records)
    said: list[tuple[str | None, bytes]] = []
    for text, number in records:
        name = logging.getLevelName(min(50, max(10, number // 10 * 10))).lower()
        shown = text.replace("\x1e", " ") + "\n"
        said += [(name, shown.encode()), (None, b"printed\n")]
    assert split(written.encode(), sizes) == said


def test_a_record_within_a_line_has_its_level():
    progress = b"\r40%" + MARKED + b"\r50%"
    assert [(None, b"\r40%"), ("warning", b"one\n"), (None, b"\r50%")] == split(progress, [])


@pytest.mark.parametrize("digit", LEVEL_OF)
def test_every_digit_has_a_level_that_is_known(digit: int):
    assert LEVEL_OF[digit] in LEVELS


class Written:
    """What a job wrote, through the shim's output and log."""

    def __init__(self, folder: Path, data: bytes, secrets: Secrets = NO_SECRETS) -> None:
        self._path = folder / "log"
        self._data = data
        self._secrets = secrets

    def records(self, *, has_levels: bool = True, cap: int = CAP_BYTES) -> list[OutputRecord]:
        """Read the log as the agent ships it."""
        reader, writer = os.pipe()
        log = Writer(os.open(self._path, os.O_RDWR | os.O_CREAT), cap)
        os.write(writer, self._data)
        os.close(writer)
        levels = reader if has_levels else None
        Output({reader: "stderr"}, log, self._secrets, levels).finish()
        log.close()
        shipped = Reader(os.open(self._path, os.O_RDONLY))
        last, frames = shipped.frames(1 << 20)
        shipped.close()
        return decode_chunk(Chunk(1, last, frames).compress(), 1, last)


def test_levels_are_in_the_headers_of_records_and_cost_no_bytes(tmp_path: Path):
    marked = b"a\nb\n\x1e4c\n\x1e4d\n\x1e3e\nf\n"
    found = Written(tmp_path, marked).records()
    assert [(None, b"a\nb\n"), ("warning", b"c\nd\n"), ("error", b"e\n"), (None, b"f\n")] == [
        (record.level, record.data) for record in found
    ]
    size = 4 * FRAME.size + len(marked) - 6
    assert size == (tmp_path / "log").stat().st_size


def test_what_a_command_writes_is_stored_byte_for_byte(tmp_path: Path):
    (record,) = Written(tmp_path, MARKED).records(has_levels=False)
    assert (None, MARKED) == (record.level, record.data)


def test_a_message_of_joblane_is_a_warning(tmp_path: Path):
    *_, note = Written(tmp_path, b"12345").records(cap=3)
    assert ("joblane", "warning") == (note.stream, note.level)


def test_secrets_are_hidden_in_log_records_too(tmp_path: Path):
    (record,) = Written(
        tmp_path, b"\x1e4a hunter2hunter2\n", Secrets([b"hunter2hunter2"])
    ).records()
    assert ("warning", b"a ***\n") == (record.level, record.data)
