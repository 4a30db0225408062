"""A job's line under a real shim: progress, results, heartbeats, params and context."""

import asyncio
import json
import signal
import time
from dataclasses import replace
from typing import Any

import pytest

from ec2_agent.jobs import shim_connection
from ec2_agent.jobs.context import TypedContext
from ec2_agent.jobs.directory import JobDirectory
from ec2_agent.jobs.reconnect import reconnect
from ec2_agent.jobs.running import RunningJob
from ec2_agent.jobs.shim_connection import ShimConnection
from ec2_agent.sandbox.model import Ending
from ec2_agent.shim import files
from joblane.job.head import make_head
from joblane.state.result import INLINE_RESULT_BYTES
from tests.sandbox.running import STOPS, go_on, marker
from tests.sandbox.shim_jobs import HEAD, Room, output, wait_end, wait_for
from tests.support.jobs import JOB, submission


def heartbeats(seconds: float) -> Any:
    return replace(HEAD, spec=HEAD.spec.model_copy(update={"heartbeat_timeout_s": seconds}))


def test_a_short_result_and_an_error_are_in_the_exit_record(room: Room):
    said = """echo '{"error": "no such customer"}' >&3; echo '{"result": {"n": [1, 2]}}' >&3"""
    directory, shim, sandbox = room.start(said)
    end = wait_end(directory, shim, sandbox)
    assert ("no such customer", '{"n":[1,2]}', False) == (end.failure, end.result, end.result_file)
    wait_for(lambda: directory.read(files.EXIT))
    assert end == Ending.decode(directory.read(files.EXIT) or {})
    assert None is files.read_bytes(directory.fd, files.RESULT)


def test_a_long_result_is_a_file_that_is_there_before_the_end_is_reported(room: Room):
    text = "x" * 200_000
    said = f"""printf '{{"result": "%s"}}\\n' "$(head -c {len(text)} /dev/zero | tr '\\0' x)" >&3"""
    directory, shim, sandbox = room.start(said + "; read a <&3; echo $a")
    end = wait_end(directory, shim, sandbox)
    assert (None, True) == (end.result, end.result_file)
    assert b'{"ok": true}\n' == output(directory)
    assert json.dumps(text).encode() == files.read_bytes(directory.fd, files.RESULT)
    directory.remove()
    assert not directory.path.exists()


def test_a_result_of_the_longest_inline_size_needs_no_file(room: Room):
    for size, in_file in ((INLINE_RESULT_BYTES, False), (INLINE_RESULT_BYTES + 1, True)):
        text = "y" * (size - 2)
        directory, shim, sandbox = room.start(f"""echo '{{"result": "{text}"}}' >&3""")
        end = wait_end(directory, shim, sandbox)
        assert in_file is end.result_file


def test_params_of_any_length_and_the_context_are_answered(room: Room):
    spec = submission(command=(), type="sleep", params={"ms": 5, "fail_first": 2})
    params = json.dumps({"text": "p" * 200_000}).encode()
    head = make_head(JOB, "acme", spec, 0)
    ask = """echo "{\\"$op\\": true}" >&3; read -r a <&3; echo "$a\""""
    said = f"for op in params context; do {ask}; done"
    directory, shim, sandbox = room.start(said, head=head, typed=TypedContext(params))
    wait_end(directory, shim, sandbox)
    given, context = output(directory).splitlines()
    assert b'{"params": ' + params + b"}" == given
    context = json.loads(context)
    expected = {"job_id": JOB, "tenant": "acme", "type": "sleep", "attempt": 0, "slot": None}
    assert expected == {name: context[name] for name in expected}
    assert head.trace.trace_id in context["traceparent"]


def test_a_job_that_is_silent_for_too_long_is_stopped(room: Room):
    began = time.monotonic()
    end = wait_end(*room.start("exec sleep 600", head=heartbeats(0.5)))
    assert time.monotonic() >= began + 0.5
    assert (True, signal.SIGTERM, False) == (end.silent, end.signal, end.timed_out)


ASKS = """trap 'echo "{\\"stopping\\": true}" >&3; read -r a <&3; echo "$a"; exit 0' TERM
echo ready; while :; do sleep 0.05; done"""


def test_a_job_that_is_silent_hears_that_it_is_a_timeout(room: Room):
    directory, shim, sandbox = room.start(ASKS, head=heartbeats(0.5))
    wait_end(directory, shim, sandbox)
    assert b'{"stopping": "timeout"}' in output(directory)


def test_a_job_hears_the_first_reason_of_those_that_stop_it(room: Room):
    directory, shim, sandbox = room.start(ASKS)
    wait_for(lambda: b"ready" in output(directory))
    for why in (b"drain", b"cancel"):
        shim.send(b'{"do": "stop", "grace_s": 60, "why": "%s"}' % why)
    wait_end(directory, shim, sandbox)
    assert b'{"stopping": "drain"}' in output(directory)


def test_a_silent_job_that_ignores_sigterm_is_killed_after_its_grace(room: Room):
    end = wait_end(
        *room.start("trap '' TERM; sleep 600 & wait; wait", head=heartbeats(0.3), grace_s=0.3)
    )
    assert (True, signal.SIGKILL) == (end.silent, end.signal)


def test_a_job_that_says_anything_in_time_goes_on_while_no_agent_is_there(room: Room):
    """Twelve beats go into the time that it may be silent: a busy host misses some."""
    beats = """while [ $((n += 1)) -le 14 ]; do echo '{"heartbeat": true}' >&3; sleep 0.25; done"""
    directory, shim, sandbox = room.start(beats, head=heartbeats(3.0))
    shim.close()
    sandbox.release(killed=False)
    wait_for(lambda: directory.read(files.EXIT))
    end = Ending.decode(directory.read(files.EXIT) or {})
    assert (0, False) == (end.exit_code, end.silent)


def test_a_job_is_stopped_for_its_silence_while_no_agent_is_there(room: Room):
    directory, shim, sandbox = room.start("exec sleep 600", head=heartbeats(0.5))
    shim.close()
    sandbox.release(killed=False)
    wait_for(lambda: directory.read(files.EXIT))
    assert Ending.decode(directory.read(files.EXIT) or {}).silent


def test_a_job_that_floods_its_line_is_not_taken_for_silent(room: Room):
    """The flood is read for ten seconds; what waits meanwhile was written in time."""
    flood = "head -c 4000 /dev/zero | tr '\\0' '\\n' >&3; sleep 2; echo survived"
    directory, shim, sandbox = room.start(flood, head=heartbeats(1.0))
    end = wait_end(directory, shim, sandbox)
    assert (0, False) == (end.exit_code, end.silent)


def test_progress_reaches_the_agent_and_an_agent_that_adopts_the_job(
    room: Room, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(shim_connection, "PROGRESS_S", 0.01)
    mark = marker()
    report = """echo '{"progress": {"percent": %d, "message": "step %d"}}' >&3; """
    script = f"{report % (10, 1)}{STOPS} {report % (90, 2)}{STOPS} # {mark}"
    directory, shim, sandbox = room.start(script)

    async def until(link: ShimConnection, percent: float) -> Any:
        while link.progress is None or link.progress.percent != percent:
            await asyncio.sleep(0.01)
        return link.progress

    async def first() -> None:
        link = ShimConnection(shim)
        said = await until(link, 10)
        assert "step 1" == said.message
        assert abs(said.at_ms - time.time() * 1000) < 60_000
        go_on(mark)
        await until(link, 90)
        link.close()
        assert None is link.progress

    asyncio.run(first())
    sandbox.detach()

    async def second() -> Ending | None:
        link = ShimConnection(reconnect(JobDirectory(directory.path)))
        said = await until(link, 90)
        assert "step 2" == said.message
        go_on(mark)
        end = await RunningJob(directory, link).end()
        assert None is link.progress
        await link.gone
        return end

    end = asyncio.run(second())
    assert end is not None
    assert 0 == end.exit_code
