"""The examples of docs/reference/line-protocol.md, run under a real shim."""

import json
import re
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ec2_agent.jobs.context import TypedContext
from ec2_agent.sandbox.model import Ending
from ec2_agent.shim.operations import MAX_DEPTH, MAX_LINE, MESSAGE_CHARS, NAMES
from joblane.job.chunk import CHUNK_BYTES, Chunk, decode_chunk
from joblane.state.result import MAX_RESULT_BYTES
from tests.sandbox.running import REPOSITORY
from tests.sandbox.shim_jobs import HEAD, Room, output, wait_end

PAGE = (REPOSITORY / "docs/reference/line-protocol.md").read_text(encoding="utf-8")


@pytest.fixture(name="room")
def _room(tmp_path: Path) -> Iterator[Room]:
    room = Room(tmp_path)
    yield room
    room.close()


def example(language: str) -> str:
    (code,) = re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)
    return str(code)


def run(room: Room, script: str, **changes: Any) -> tuple[Ending, bytes]:
    directory, shim, sandbox = room.start(script, **changes)
    end = wait_end(directory, shim, sandbox)
    return end, output(directory)


def test_the_shell_script(room: Room):
    end, printed = run(room, example("sh"))
    assert (0, '{"total":6}') == (end.exit_code, end.result), printed
    assert (b"", "app:weather") == (printed, end.condition)


def test_the_line_with_a_level(room: Room):
    """Of a job with a type the mark is read, of a command it is output."""
    typed = replace(HEAD, spec=HEAD.spec.model_copy(update={"type": "sum"}))
    directory, shim, sandbox = room.start(example("bash"), head=typed, typed=TypedContext(b"{}"))
    wait_end(directory, shim, sandbox)
    reader = directory.reader()
    last, frames = reader.frames(CHUNK_BYTES)
    reader.close()
    (record,) = decode_chunk(Chunk(1, last, frames).compress(), 1, last)
    assert ("warning", b"the disk is nearly full\n") == (record.level, record.data)
    _, printed = run(room, example("bash"))
    assert b"\x1e4the disk is nearly full\n" == printed


def perl(room: Room, **changes: Any) -> tuple[Ending, bytes]:
    return run(
        room, f"cat > /tmp/job.pl <<'END'\n{example('perl')}END\nexec perl /tmp/job.pl", **changes
    )


@pytest.mark.skipif(shutil.which("perl") is None, reason="needs perl")
def test_the_perl_program_as_a_command(room: Room):
    end, printed = perl(room, head=replace(HEAD, attempt=2))
    assert (0, {"total": 3, "attempt": 2}) == (end.exit_code, json.loads(end.result or "")), printed


@pytest.mark.skipif(shutil.which("perl") is None, reason="needs perl")
@pytest.mark.parametrize(
    ("numbers", "code", "result", "error"),
    [([4, 5], 0, 9, None), ([4, -5], 65, None, "negative number in the params")],
)
def test_the_perl_program_of_a_type(
    room: Room, numbers: list[int], code: int, result: int | None, error: str | None
):
    head = replace(HEAD, spec=HEAD.spec.model_copy(update={"type": "sum"}))
    params = json.dumps({"numbers": numbers}).encode()
    end, printed = perl(room, head=head, typed=TypedContext(params))
    found = None if end.result is None else json.loads(end.result)["total"]
    assert (code, result, error) == (end.exit_code, found, end.failure), printed


def test_the_page_has_every_operation_and_the_limits_of_the_code():
    requests = dict(re.findall(r"^\| `\{\"(\w+)\": (.*?)\}` \|", PAGE, re.MULTILINE))
    assert set(NAMES) == set(requests)
    for number in (MAX_LINE, MAX_RESULT_BYTES):
        assert f"{number:,} bytes" in PAGE
    assert f"{MESSAGE_CHARS} characters" in PAGE
    assert f"{MAX_DEPTH} levels" in PAGE
