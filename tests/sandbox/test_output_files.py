"""What a hostile job leaves in its work directory, and what of it is collected: its own bytes."""

import os
import time

import pytest

from ec2_agent.files.beneath import open_regular
from ec2_agent.files.collect import Bounds, CannotCollect, CollectedFiles, collect
from ec2_agent.sandbox.launcher import Launcher
from ec2_agent.sandbox.model import SandboxLimits, Spec
from tests.sandbox.running import PYTHON
from tests.sandbox.staged import run_and_keep

BOUNDS = Bounds(files=1000, megabytes=64)


def look(work: int, *globs: str, bounds: Bounds = BOUNDS) -> CollectedFiles:
    return collect(work, globs, bounds, lambda: True)


def content(work: int, found: CollectedFiles) -> dict[str, bytes]:
    """What an upload would send."""
    contents = {}
    for file in found.files:
        with os.fdopen(open_regular(work, file.path), "rb") as opened:
            contents[file.path] = opened.read()
    return contents


HOSTILE = r"""
mkdir -p out/deep; cd out
echo mine > own; cp own executable; chmod 6755 executable; ln own hard
ln -s /etc/passwd absolute; ln -s ../../etc/passwd up; ln -s /proc/self/root root
ln -s /etc etc; ln -s own inside; ln -s . loop; ln -s /nowhere dangling
mkfifo fifo; echo x > 'new
line'; echo x > "$(printf 'esc\033[2J')"; echo x > "$(printf 'bad\377')"
ln /etc/passwd link 2>/dev/null; ln /usr/bin/id link 2>/dev/null; ln /tmp/mine link 2>/dev/null
mknod device b 8 0 2>/dev/null; mknod null c 1 3 2>/dev/null
chmod 000 deep; mkdir closed; echo mine > closed/file; chmod 000 closed/file closed
cd ..; mv out/own out/moved; exit 0
"""


def test_only_the_jobs_own_regular_files_are_collected(launcher: Launcher) -> None:
    ran, work = run_and_keep(launcher, HOSTILE)
    assert ran.ending.exit_code == 0, ran
    found = look(work, "**")
    contents = content_as_root(work, found)
    os.close(work)
    assert {b"mine\n"} == set(contents.values())
    assert {"out/executable", "out/hard", "out/moved"} <= set(contents)
    assert set(contents) <= {"out/executable", "out/hard", "out/moved", "out/closed/file"}
    assert {"0755"} == {file.mode for file in found.files if file.path == "out/executable"}
    shown = {entry.path.removeprefix("out/"): entry.why for entry in found.skipped}
    links = {"absolute", "up", "root", "etc", "inside", "loop", "dangling"}
    assert {"a link, which is not followed"} == {shown[name] for name in links}
    assert "a FIFO" == shown["fifo"]
    assert {"new\ufffdline", "esc\ufffd[2J", "bad\ufffd"} <= set(shown)
    assert not {"link", "device", "null"} & {*shown, *contents}


def content_as_root(work: int, found: CollectedFiles) -> dict[str, bytes]:
    """As `content`; without root the files that the job has closed cannot be read."""
    if os.geteuid() != 0:
        found.files = [file for file in found.files if "closed" not in file.path]
    return content(work, found)


def test_a_sparse_file_of_a_terabyte_is_refused_at_once(launcher: Launcher) -> None:
    _, work = run_and_keep(launcher, "truncate -s 1T huge || truncate -s 8G huge")
    began = time.process_time()  # which a busy host does not change; to read 8 GB takes longer
    with pytest.raises(CannotCollect, match="an output file has"):
        look(work, "huge")
    os.close(work)
    assert time.process_time() - began < 1


def test_more_directory_entries_than_may_be_looked_at_are_refused(launcher: Launcher) -> None:
    script = "mkdir a b; cd a; i=0; while [ $i -lt 300 ]; do : > $i; i=$((i+1)); done"
    _, work = run_and_keep(launcher, script)
    with pytest.raises(CannotCollect, match="more than 200 directory entries"):
        look(work, "**", bounds=Bounds(1000, 1, entries=200))
    assert [] == look(work, "b/**", bounds=Bounds(1000, 1, entries=200)).files
    os.close(work)


SWAPPING = r"""
import ctypes, os
libc = ctypes.CDLL(None)
os.makedirs("dir"); open("dir/passwd", "w").write("mine")
os.symlink("/etc", "link"); print("ready", flush=True)
while True:
    libc.renameat2(-100, b"dir", -100, b"link", 2)  # RENAME_EXCHANGE
"""


def test_a_directory_that_is_swapped_for_a_link_without_end_leads_nowhere(
    launcher: Launcher,
) -> None:
    """Files are collected when all processes are dead; this holds even while one is alive."""
    read, write = os.pipe()
    limits = SandboxLimits(pids=10, tmp_mb=8)
    spec = Spec((*PYTHON, SWAPPING), {}, limits, timeout_s=60, keep_work=True)
    sandbox = launcher.start(spec, stdout=write, stderr=write)
    os.close(write)
    work = sandbox.work
    assert work is not None
    with os.fdopen(read, "rb") as said:
        assert b"ready\n" == said.readline()
        raced, ends = 0, time.monotonic() + 30
        while raced < 20:  # swapped between the look and the open
            assert time.monotonic() < ends, raced
            for file in look(work, "dir/*", "link/*").files:
                try:
                    fd = open_regular(work, file.path)
                except OSError:
                    raced += 1
                    continue
                with os.fdopen(fd, "rb") as opened:
                    assert b"mine" == opened.read()
        sandbox.kill()
    sandbox.release(killed=True)
    os.close(work)
