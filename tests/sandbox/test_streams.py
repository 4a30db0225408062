"""What a shim records of a job's streams: their order, whole characters, and no secrets."""

import asyncio
import fcntl
import os
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ec2_agent.jobs.running import RunningJob
from ec2_agent.jobs.shim_connection import ShimConnection
from ec2_agent.sandbox.model import SandboxRefused
from ec2_agent.shim.log import Writer
from ec2_agent.shim.masking import NO_SECRETS
from ec2_agent.shim.output import PIPE_BYTES, Output
from tests.sandbox.running import STOPS, go_on, marker
from tests.sandbox.shim_jobs import HEAD, Room, output, records, wait_end, wait_for

SECRET = "correct-horse battery"
PEM = (
    "-----BEGIN KEY-----\nMIIEvQIBADANBgkqhkiG9w0BAQEF\nAASCBKcwggSjAgEA\nxyz\n-----END KEY-----\n"
)
HIDDEN: dict[str, Any] = {
    "env": {"TOKEN": SECRET, "KEY": PEM, "SHORT": "abc"},
    "secrets": ("TOKEN", "KEY", "SHORT"),
}


def merged() -> Any:
    return replace(HEAD, spec=HEAD.spec.model_copy(update={"merge_stderr": True}))


def of(found: list[tuple[int, str, bytes]], stream: str) -> bytes:
    return b"".join(data for _, name, data in found if name == stream)


def test_stdout_comes_first_of_what_is_there_of_both(room: Room):
    for _ in range(20):
        # Both are written before the shim looks: a pipe's end makes it look.
        directory, shim, sandbox = room.start("echo out; echo err >&2")
        wait_end(directory, shim, sandbox)
        assert ["stdout", "stderr"] == [stream for _, stream, _ in records(directory)]


def test_merged_streams_are_in_exact_order(room: Room):
    script = "for i in $(seq 300); do echo out $i; echo err $i >&2; done"
    directory, shim, sandbox = room.start(script, head=merged())
    wait_end(directory, shim, sandbox)
    assert {"stdout"} == {stream for _, stream, _ in records(directory)}
    wanted = [f"{name} {n}" for n in range(1, 301) for name in ("out", "err")]
    assert wanted == output(directory).decode().splitlines()


def test_a_prompt_that_ends_within_a_character_is_recorded_up_to_it(room: Room):
    mark = marker()
    script = rf"printf 'Gr\303'; {STOPS} printf '\274n\n'; printf '\342\202' # {mark}"
    directory, shim, sandbox = room.start(script)
    wait_for(lambda: records(directory))
    go_on(mark)
    wait_end(directory, shim, sandbox)
    assert [b"Gr", "ün\n".encode(), b"\xe2\x82"] == [data for *_, data in records(directory)]


def test_secrets_are_hidden_in_both_streams_and_across_reads(room: Room):
    script = """
        printf 'a %s b\\n' "$TOKEN"
        printf 'correct-ho' >&2; sleep 0.5; printf 'rse battery!\\n' >&2
        printf %s "$KEY"; echo "$KEY" | base64 -w0 | base64 -d
        printf "\\0$TOKEN\\377$TOKEN\\n"; echo $SHORT
    """
    directory, shim, sandbox = room.start(script, **HIDDEN)
    wait_end(directory, shim, sandbox)
    found = records(directory)
    key = b"***\n***\n***\nxyz\n***\n"
    assert b"a *** b\n" + key + key + b"\n\0***\xff***\nabc\n" == of(found, "stdout")
    assert b"***!\n" == of(found, "stderr")


def test_what_begins_as_a_secret_and_is_none_is_recorded(room: Room):
    directory, shim, sandbox = room.start(
        "printf 'correct-horse bat'; sleep 0.4; printf cave", **HIDDEN
    )
    wait_end(directory, shim, sandbox)
    assert b"correct-horse batcave" == output(directory)


def test_secrets_are_hidden_in_what_a_job_says_on_its_line(room: Room):
    said = """
        say() { echo "$1" >&3; read answer <&3; }
        say '{"error": "login with '"$TOKEN"' failed"}'
        say '{"progress": {"message": "as '"$TOKEN"'"}}'
        say '{"result": {"'"$TOKEN"'": ["x'"$TOKEN"'y", 1]}}'
        sleep 0.5
    """
    directory, shim, sandbox = room.start(said, **HIDDEN)

    async def follow() -> Any:
        link = ShimConnection(shim)
        while link.progress is None:
            await asyncio.sleep(0.01)
        progress = link.progress
        return await RunningJob(directory, link, sandbox).end(), progress.message

    end, message = asyncio.run(follow())
    assert ("login with *** failed", '{"***":["x***y",1]}') == (end.failure, end.result)
    assert "as ***" == message


def test_secrets_are_hidden_in_why_a_command_could_not_be_run(room: Room):
    changes = {**HIDDEN, "argv": (f"/bin/{SECRET}",)}
    directory, shim, sandbox = room.start("", **changes)
    end = wait_end(directory, shim, sandbox)
    assert (127, True) == (end.exit_code, "***" in str(end.error))
    assert SECRET not in str(end.error)


@pytest.mark.parametrize("size", [9, 65_536])
def test_a_flood_with_secrets_is_as_complete(room: Room, size: int):
    value = "s" * size
    script = "for i in $(seq 50); do printf '%s-%s\\n' \"$TOKEN\" $i; done"
    directory, shim, sandbox = room.start(script, env={"TOKEN": value}, secrets=("TOKEN",))
    wait_end(directory, shim, sandbox)
    assert [f"***-{n}" for n in range(1, 51)] == output(directory).decode().splitlines()
    assert not re.search(r"ss", output(directory).decode())


def test_a_secret_that_is_no_text_is_refused_as_any_variable(room: Room):
    with pytest.raises(SandboxRefused, match="is not text"):
        room.start("true", env={"TOKEN": "\ud800 correct-horse"}, secrets=("TOKEN",))


def test_output_that_is_left_in_a_pipe_of_packets_is_whole(tmp_path: Path):
    """With O_DIRECT each read gives one write, however short."""
    reader, writer = os.pipe2(os.O_DIRECT | os.O_CLOEXEC)
    fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
    for number in range(200):
        os.write(writer, b"%d\n" % number)
    os.close(writer)
    path = tmp_path / "log"
    log = Writer(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
    Output({reader: "stdout"}, log, NO_SECRETS).finish()
    log.close()
    assert 200 == log.seq
