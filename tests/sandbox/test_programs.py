"""Ordinary programs do in a job what they do in a shell: each row of programs.toml."""

import os
import re
import shutil
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ec2_agent.files import stdin
from ec2_agent.sandbox.launcher import ENVIRONMENT
from ec2_agent.sandbox.model import Spec
from tests.sandbox.running import NO_LIMITS, Ran, is_emulated, run

if TYPE_CHECKING:
    from tests.sandbox.shim_jobs import Room

TABLE = Path(__file__).with_name("programs.toml")

Run = Callable[..., Ran]
"""Runs a job with these fields of Spec."""


@dataclass(frozen=True, slots=True)
class Row:
    """What a script writes, and how it ends; programs.toml says what each field is."""

    name: str
    run: str
    out: str = ""
    err: str = ""
    code: int = 0
    stdin: str | None = None
    needs: list[str] = field(default_factory=list)
    host: bool = False
    machine: bool = False
    deep: bool = False

    @property
    def missing(self) -> list[str]:
        """Of what it needs, the programs that jobs do not find on this host."""
        return [name for name in self.needs if not _is_there(name)]


def _is_there(program: str) -> bool:
    if program.startswith("/"):
        return any(Path("/").glob(program[1:]))
    return shutil.which(program, path=ENVIRONMENT["PATH"]) is not None


def _rows() -> Iterator[object]:
    """Each row, once for each kind of standard input."""
    for fields in tomllib.loads(TABLE.read_text(encoding="utf-8"))["row"]:
        row = Row(**fields)
        marks = [pytest.mark.cgroup_v2] if row.machine else []
        if row.deep:
            marks.append(pytest.mark.deep)
        for kind in ("text", "file") if row.stdin is not None else ("",):
            yield pytest.param(row, kind, marks=marks, id=f"{row.name} {kind}".strip())


@pytest.fixture(name="run_job", scope="module")
def _run_job(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Run]:
    """Runs a job in a warm slot, under a shim as an agent does.

    In the machine, where the agent's imports take longer than all rows, it runs without a shim.
    """
    if is_emulated():
        launcher = request.getfixturevalue("shared_launcher")
        yield lambda **fields: run(launcher, Spec(**fields))
        return
    from tests.sandbox.shim_jobs import Room

    room = Room(tmp_path_factory.mktemp("programs"), slots=2)
    yield partial(_run_under_shim, room)
    room.close()


def _run_under_shim(room: "Room", **fields: Any) -> Ran:
    from tests.sandbox.shim_jobs import records, wait_end

    directory, shim, sandbox = room.start("", **fields)
    ending = wait_end(directory, shim, sandbox)
    said = {"stdout": b"", "stderr": b""}
    for _, stream, data in records(directory):
        said[stream] += data.decode().encode()  # each record by itself: characters stay whole
    return Ran(ending, said["stdout"], said["stderr"])


@pytest.fixture
def given(row: Row, kind: str, tmp_path: Path) -> Iterator[int | None]:
    """The standard input, as an agent that is root gives it."""
    if row.stdin is None:
        yield None
        return
    if kind == "text":
        fd = stdin.open_text(row.stdin)
    else:
        closed = tmp_path / "cache"
        closed.mkdir(mode=0o700)
        (closed / "file").write_text(row.stdin, encoding="utf-8")
        (closed / "file").chmod(0o600)
        fd = os.open(closed / "file", os.O_RDONLY)
        stdin.let_jobs_open(fd)
    yield fd
    os.close(fd)


@pytest.mark.parametrize(("row", "kind"), tuple(_rows()))
def test_a_program_does_what_it_does_in_a_shell(run_job: Run, row: Row, given: int | None) -> None:
    if row.missing:
        pytest.skip(f"{', '.join(row.missing)}: not installed")
    if row.host and is_emulated():
        pytest.skip("on the host only")
    argv = ("bash", "-c", row.run)
    ran = run_job(argv=argv, env={}, limits=NO_LIMITS, timeout_s=100.0, stdin=given)
    # Process ids, which bash tells of children that have crashed.
    err = re.sub(r"(?m)^(bash: line \d+:) +\d+ ", r"\1 N ", ran.err.decode())
    expected = row.out.lstrip("\n"), row.err.lstrip("\n"), row.code
    assert expected == (ran.out.decode(), err, ran.ending.exit_code), ran.ending
    assert not ran.ending.timed_out
