"""Slots run compiled code: lists of system calls, and memory without Python's."""

import contextlib
import ctypes
import os
import re
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ec2_agent.sandbox import wire, zygote_process
from ec2_agent.sandbox.kernel import AT_FDCWD
from ec2_agent.sandbox.launcher import DEFAULTS, Launcher
from ec2_agent.sandbox.model import SandboxLimits, SandboxRefused, Spec
from ec2_agent.sandbox.native import Native
from ec2_agent.sandbox.steps import OPENED, UID, UID_TEXT, Steps
from tests.sandbox.running import TidyLauncher, inits, shell, wait_until_ready

DEFAULT_TMP = SandboxLimits(tmp_mb=DEFAULTS.tmp_mb)
"""Limits that a slot of the pool has, and whose machine the agent compares."""


@pytest.fixture
def library() -> Native:
    return Native()


def descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def test_calls_are_made_in_order_with_what_was_opened_and_the_uid(library: Native, tmp_path: Path):
    file = tmp_path / "map"
    made = Steps()
    flags = os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC
    text = b"1000 %b 1" % UID_TEXT
    made.add("open", "openat", AT_FDCWD, os.fsencode(file), flags, 0o600)
    made.add("write", "write", OPENED, text, len(text))
    made.add("close", "close", OPENED)
    made.add("chown", "fchownat", AT_FDCWD, os.fsencode(file), UID, UID, 0)
    before = descriptors()
    for uid in (os.geteuid(), os.geteuid()):  # the list is used again
        library.carry_out(made, uid)
        assert file.read_text().split() == ["1000", str(uid), "1"]
    assert descriptors() == before


def test_a_list_is_for_one_uid_after_another() -> None:
    made = Steps()
    made.add("setresuid", "setresuid", UID, 7, UID)
    first = (ctypes.c_int64 * 9).from_address(made.address(200_001))[2:5]
    second = (ctypes.c_int64 * 9).from_address(made.address(200_002))[2:5]
    assert [first, second] == [[200_001, 7, 200_001], [200_002, 7, 200_002]]


def test_the_first_call_that_fails_ends_it_and_says_what_it_was(library: Native, tmp_path: Path):
    made = Steps()
    made.add_attempt("chdir", os.fsencode(tmp_path / "not there"))
    made.add("mkdir first", "mkdirat", AT_FDCWD, os.fsencode(tmp_path / "first"), 0o700)
    made.add("mkdir again", "mkdirat", AT_FDCWD, os.fsencode(tmp_path / "first"), 0o700)
    made.add("mkdir last", "mkdirat", AT_FDCWD, os.fsencode(tmp_path / "last"), 0o700)
    with pytest.raises(FileExistsError, match="mkdir again: File exists"):
        library.carry_out(made, 0)
    assert [path.name for path in tmp_path.iterdir()] == ["first"]


def test_what_is_to_be_hidden_must_not_be_found(library: Native, tmp_path: Path) -> None:
    made = Steps()
    made.add_absence(str(tmp_path / "not there"))
    library.carry_out(made, 0)
    made = Steps()
    made.add_absence(str(tmp_path))
    with pytest.raises(FileExistsError, match=f"hide {tmp_path}: File exists"):
        library.carry_out(made, 0)


def test_an_absence_that_cannot_be_seen_is_none(library: Native, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    made = Steps()
    made.add_absence(str(tmp_path / "file" / "below"))
    with pytest.raises(NotADirectoryError):
        library.carry_out(made, 0)


def test_a_proc_that_hides_nothing_is_given_to_no_job(monkeypatch: pytest.MonkeyPatch) -> None:
    boot = """from ec2_agent.sandbox import steps
add = steps.Steps.add_mount
def without_options(self, source, target, kind, flags, data=""):
    add(self, source, target, kind, flags, "" if target == "/proc" else data)
steps.Steps.add_mount = without_options
zygote.main()"""
    whole = zygote_process._BOOT
    monkeypatch.setattr(zygote_process, "_BOOT", whole.replace("zygote.main()", boot))
    # With the second one the slot has ended when the job is sent.
    tried: tuple[dict[str, Any], ...] = ({}, {"check": lambda: time.sleep(0.2)})
    with TidyLauncher(isolation="namespaces", slots=1) as launcher, open(os.devnull, "wb") as null:
        for options in tried:
            spec = Spec(("/bin/true",), {}, SandboxLimits())
            with pytest.raises(SandboxRefused, match="hide /proc/sys: File exists"):
                launcher.start(spec, stdout=null.fileno(), stderr=null.fileno(), **options)


def test_a_checkout_without_the_library_says_what_makes_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "uname", lambda: os.uname_result(("", "", "", "", "vax")))
    with pytest.raises(OSError, match=r"slot-vax\.so.*scripts/setup makes it"):
        Native()


def names_of_memory(launcher: Launcher) -> set[str]:
    """Give the files in the memory of the first slot of the pool, which is the oldest."""
    wait_until_ready(launcher)
    maps = Path(f"/proc/{inits(launcher)[0]}/maps").read_text().splitlines()
    return {Path(line.split(maxsplit=5)[5]).name for line in maps if "/" in line}


@pytest.fixture
def launcher() -> Iterator[TidyLauncher]:
    with TidyLauncher(isolation="namespaces", slots=1) as started:
        yield started


def test_a_slot_has_no_memory_of_python(launcher: TidyLauncher) -> None:
    names = names_of_memory(launcher)
    assert any(name.startswith("slot-") for name in names)
    assert not [name for name in names if re.match(r"libpython|_ctypes|libffi", name)]


def test_where_slots_would_need_more_they_have_all_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    # The C library's functions are not found, so its memory is left out at first.
    boot = "from ec2_agent.sandbox import memory\nmemory._NEEDED = ()\nzygote.main()"
    whole = zygote_process._BOOT  # the program of the launcher process
    monkeypatch.setattr(zygote_process, "_BOOT", whole.replace("zygote.main()", boot))
    with TidyLauncher(isolation="namespaces", slots=1) as launcher:
        assert any(name.startswith("_ctypes") for name in names_of_memory(launcher))
        assert shell(launcher, "exit 3").ending.exit_code == 3


def test_a_slot_that_cannot_read_its_command_ends_and_nobody_waits() -> None:
    with TidyLauncher(isolation="namespaces", slots=0) as launcher:
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(wire, "run_body", lambda *_, **__: b"J and no more")
            ending = shell(launcher, "exit 3").ending
        assert (ending.signal, ending.killed) == (signal.SIGKILL, True)
        assert shell(launcher, "exit 3").ending.exit_code == 3


@pytest.mark.parametrize(
    "body", [b"P", b"P\x01", b"P\x05\0\0\0four", b"P\xff\xff\xff\xff", b"P" + bytes(8)], ids=str
)
@pytest.mark.parametrize("slots", [0, 1])
def test_a_slot_that_cannot_read_its_machine_runs_nothing(
    monkeypatch: pytest.MonkeyPatch, body: bytes, slots: int
) -> None:
    with TidyLauncher(isolation="namespaces", slots=slots) as launcher:
        monkeypatch.setattr(launcher, "_encode_machine", lambda _: body)
        monkeypatch.setattr(launcher, "_default_machine", None)
        with contextlib.suppress(SandboxRefused):  # if it ends before the command is sent
            ran = shell(launcher, "echo ran", limits=DEFAULT_TMP)
            assert (b"", signal.SIGKILL, True) == (ran.out, ran.ending.signal, ran.ending.killed)
