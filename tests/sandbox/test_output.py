"""Output of any size, speed and encoding neither blocks a job nor uses up memory."""

import os

import pytest

from ec2_agent.sandbox.launcher import Launcher
from ec2_agent.sandbox.model import Spec
from tests.sandbox.running import NO_LIMITS, is_emulated, python, run, shell


def test_bytes_arrive_as_they_were_written(launcher: Launcher) -> None:
    ran = python(launcher, "import os\nos.write(1, bytes(range(256)) * 300)\nos.write(2, b'\\xff')")
    assert ran.out == bytes(range(256)) * 300
    assert ran.err == b"\xff"


def test_one_line_of_ten_million(launcher: Launcher) -> None:
    ran = shell(launcher, "head -c 10000000 /dev/zero | tr '\\0' x")
    assert len(ran.out) == 10_000_000


def test_a_flood_is_read_as_fast_as_it_comes(launcher: Launcher) -> None:
    size = 20_000_000 if is_emulated() else 500_000_000
    read, write = os.pipe()
    spec = Spec(("head", "-c", str(size), "/dev/zero"), {}, NO_LIMITS, timeout_s=60)
    sandbox = launcher.start(spec, stdout=write, stderr=write)
    os.close(write)
    with os.fdopen(read, "rb", 0) as pipe:
        assert size == sum(len(chunk) for chunk in iter(lambda: pipe.read(65536), b""))
    assert sandbox.wait().exit_code == 0


def test_a_job_that_closes_its_output_is_followed_to_its_end(launcher: Launcher) -> None:
    ran = shell(launcher, "echo first; exec >&- 2>&-; sleep 0.3; exit 9")
    assert (ran.out, ran.ending.exit_code) == (b"first\n", 9)


def test_output_of_a_daemon_does_not_hold_the_end_up(launcher: Launcher) -> None:
    ran = shell(launcher, "(setsid sh -c 'while :; do echo x; sleep 0.1; done' &); exit 2")
    assert (ran.ending.exit_code, ran.ending.timed_out) == (2, False)


def test_a_job_that_nobody_reads_can_still_be_stopped(launcher: Launcher) -> None:
    read, write = os.pipe()
    sandbox = launcher.start(Spec(("yes",), {}, NO_LIMITS), stdout=write, stderr=write)
    os.close(write)
    with pytest.raises(TimeoutError):
        sandbox.wait(0.2)
    sandbox.stop(0.1)
    assert sandbox.wait().stopped
    os.close(read)


def test_a_reader_that_left_ends_the_writer(launcher: Launcher) -> None:
    read, write = os.pipe()
    sandbox = launcher.start(Spec(("yes",), {}, NO_LIMITS), stdout=write, stderr=write)
    os.close(write)
    os.close(read)
    assert sandbox.wait().signal == 13


def test_a_full_environment_of_a_megabyte(launcher: Launcher) -> None:
    env = {f"V{n}": "x" * 100_000 for n in range(10)}
    ran = run(launcher, Spec(("sh", "-c", "env | wc -c"), env, NO_LIMITS))
    assert int(ran.out) > 1_000_000
