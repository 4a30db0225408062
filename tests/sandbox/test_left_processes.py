"""What a job's main process leaves running ends its output in peace, and then ends."""

import shlex
import time
from typing import Any

import pytest

from ec2_agent.sandbox.model import Ending
from ec2_agent.shim.shim import LEFT
from tests.sandbox.shim_jobs import Room, output, records, wait_end

NOTE = ("joblane", f"[{LEFT}]\n".encode())
BASH = "/bin/bash -c "


def run(room: Room, script: str, **changes: Any) -> tuple[Ending, list[tuple[str, bytes]], float]:
    """Run a script; returns its ending, its records and its seconds."""
    began = time.monotonic()
    directory, shim, sandbox = room.start(script, **changes)
    end = wait_end(directory, shim, sandbox)
    took_s = time.monotonic() - began
    return end, [(stream, data) for _, stream, data in records(directory)], took_s


def text(found: list[tuple[str, bytes]]) -> bytes:
    return b"".join(data for stream, data in found if stream == "stdout")


@pytest.mark.parametrize("helper", ["tee log.txt", "sed s/^/x/", "sort -n", "gzip | gunzip"])
def test_output_that_goes_through_a_helper_is_whole(room: Room, helper: str):
    script = f"{BASH}'exec > >({helper}); for i in $(seq 1000); do echo $i; done; exit 3'"
    for _ in range(10):
        directory, shim, sandbox = room.start(script)
        end = wait_end(directory, shim, sandbox)
        assert (3, False) == (end.exit_code, end.left)
        said = output(directory).replace(b"x", b"").split()
        assert [str(n).encode() for n in range(1, 1001)] == said


def test_others_may_write_for_two_seconds_and_are_then_asked_to_end(room: Room):
    handler = "trap 'echo asked; exit' TERM; while :; do echo x; sleep 0.1; done"
    end, found, took_s = run(room, f'sh -c "{handler}" & echo main')
    assert (0, True, False, False) == (end.exit_code, end.left, end.stopped, end.timed_out)
    assert text(found).endswith(b"asked\n")
    assert 2.0 <= took_s
    assert text(found).count(b"x\n") >= 10
    assert NOTE == found[-1]


def test_who_ignores_that_is_killed_two_seconds_later(room: Room):
    end, found, took_s = run(room, "trap '' TERM; sleep 4711 & exit 0")
    assert (0, True) == (end.exit_code, end.left)
    assert 4.0 <= took_s
    assert NOTE == found[-1]


@pytest.mark.parametrize("start", ["", "setsid "])
def test_who_cannot_write_to_the_job_is_not_waited_for(room: Room, start: str):
    say = """echo '{"error": "'$(date +%s.%N)'"}' >&3; exit"""
    script = f"trap {shlex.quote(say)} TERM; : > /tmp/ready; while :; do sleep 0.05; done"
    left = f"{start}sh -c {shlex.quote(script)} >/dev/null 2>&1 &"
    wait = "while [ ! -e /tmp/ready ]; do sleep 0.01; done; date +%s.%N; exit 5"
    end, found, _ = run(room, f"{left} {wait}")
    assert (5, True) == (end.exit_code, end.left)
    assert NOTE == found[-1]
    # By the job's own clock: less than who can write has.
    assert 0 < float(end.failure or "") - float(text(found)) < 2.0


def test_one_that_is_stopped_is_asked_as_well(room: Room):
    helper = 'trap "echo asked; exit" TERM; kill -STOP $$'
    end, found, _ = run(room, f"sh -c '{helper}' & sleep 0.2; exit 0")
    assert (0, b"asked\n") == (end.exit_code, text(found))


def test_the_timeout_is_for_the_main_process(room: Room):
    end, _, took_s = run(room, "sleep 4711 & sleep 0.6; exit 4", timeout_s=1.0)
    assert (4, False) == (end.exit_code, end.timed_out)
    assert took_s >= 2.5
    assert 0.6 <= end.usage.wall_s < took_s - 1.9


def test_of_a_job_that_was_stopped_nothing_is_said(room: Room):
    end, found, _ = run(room, "sleep 4711 & trap 'exit 6' TERM; wait", timeout_s=0.5)
    assert (6, True, False) == (end.exit_code, end.timed_out, end.left)
    assert [] == found


def test_a_job_that_is_stopped_after_its_main_process_has_ended_by_itself(room: Room):
    directory, shim, sandbox = room.start("trap '' TERM; sleep 4711 & echo main")
    while not output(directory):
        time.sleep(0.01)
    time.sleep(0.3)  # the shell has ended
    began = time.monotonic()
    shim.send(b'{"do": "stop", "grace_s": 60, "why": "cancel"}')
    end = wait_end(directory, shim, sandbox)
    assert (0, False, True) == (end.exit_code, end.stopped, end.left)
    assert NOTE[1] in output(directory)
    assert time.monotonic() - began < 30  # and not the 60 of its grace


def test_a_fork_bomb_that_is_left_ends(room: Room):
    bomb = "while :; do (trap '' TERM; sleep 0.01; :) & done"
    end, found, _ = run(room, f"trap '' TERM; ({bomb}) >/dev/null 2>&1 & exit 0")
    assert (0, True) == (end.exit_code, end.left)
    assert NOTE in found


def test_a_helper_that_was_killed_takes_nothing_with_it(room: Room):
    end, found, _ = run(room, "sleep 4711 & kill -9 $!; echo main; exit 7")
    assert (7, False, b"main\n") == (end.exit_code, end.left, text(found))


def test_who_was_asked_to_end_before_keeps_the_whole_grace(room: Room):
    """A shell ends at SIGTERM; what it has started may take as long as documented to save."""
    worker = "trap 'echo asked; sleep 3; echo saved; exit' TERM; while :; do sleep 0.1; done"
    end, found, _ = run(room, f'sh -c "{worker}" & wait', timeout_s=0.5, grace_s=20)
    assert (True, False, b"asked\nsaved\n") == (end.timed_out, end.left, text(found))
