"""The runner as a process with descriptor 3, and an agent's end of its line."""

import json
import logging
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from joblane.handler.levels import mark

MAIN = "from joblane.handler.runner import main; main()\n"

HANDLERS = """
import logging, os, sys, time
from pydantic import BaseModel
from joblane import Job, Key, PermanentError, job_type

class Params(BaseModel):
    do: str
    numbers: list[int] = []

class Result(BaseModel):
    total: int
    said: str = ""

@job_type("work")
def work(params: Params, job: Job) -> Result:
    match params.do:
        case "add":
            print("to stdout")
            job.log.warning("to stderr")
            assert job.context.key == ("a", True, 3)
            assert job.stopping is None
            return Result(total=sum(params.numbers), said=job.context.job_id)
        case "big":
            return Result(total=0, said="x" * 300_000)
        case "fit":
            return Result(total=0, said="x" * (262_144 - len('{"total":0,"said":""}')))
        case "raise":
            raise ValueError("a secret\\nin two lines")
        case "library":
            logging.basicConfig(handlers=job.log.handlers, level="WARNING")
            logging.getLogger("library").error("in\\ntwo lines")
            logging.getLogger("library").info("left out")
            return Result(total=0)
        case "never":
            raise PermanentError("the ticket was deleted")
        case "exit":
            sys.exit(params.numbers[0])
        case "wrong":
            return {"total": "many"}
        case "progress":
            job.progress(12.5, "m" * 300)
            job.progress(message="only a message")
            job.progress(step="s" * 80, current=1, total=4)
            job.heartbeat()
            return Result(total=0)
        case "block":
            try:
                job.block("app:zendesk")
            except Exception:
                pass
        case "block-any":
            job.block()
        case "block-refused":
            try:
                job.block("nonsense")
            except ValueError as error:
                return Result(total=1, said=str(error))
        case "wait":
            job.progress(1)
            while not job.cancelled:
                time.sleep(0.01)
            return Result(total=7, said=job.stopping)
    raise AssertionError(params.do)

@job_type("none")
def none(params: Params, job: Job) -> None:
    return None

not_a_type = 3
"""


@dataclass
class Agent:
    """The agent's end: answers requests, and remembers them."""

    sock: socket.socket
    params: object
    refuse: tuple[str, ...] = ()
    asked: list[dict[str, Any]] = field(default_factory=list)
    stopping: str | None = None
    on_request: Callable[[dict[str, Any]], None] = lambda _request: None

    def serve(self) -> None:
        """Answer until the job is gone."""
        with self.sock.makefile("rwb") as stream:
            for line in stream:
                request = json.loads(line)
                self.asked.append(request)
                self.on_request(request)
                stream.write(json.dumps(self.answer(request)).encode() + b"\n")
                stream.flush()

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        """As the agent answers."""
        if self.refuse and next(iter(request)) in self.refuse:
            return {"error": "not that"}
        if "params" in request:
            return {"params": self.params}
        if "context" in request:
            ids = {"job_id": "01J", "attempt": 2, "slot": None, "key": ["a", True, 3]}
            return {**ids, "traceparent": "00-x", "type": "work", "version": 4, "new": 1}
        if "stopping" in request:
            return {"stopping": self.stopping}
        return {"ok": True}

    def said(self, name: str) -> list[Any]:
        """The values of all requests of a name."""
        return [request[name] for request in self.asked if name in request]


@dataclass
class Ended:
    """What is left of a run."""

    code: int
    stdout: str
    stderr: str
    agent: Agent


class Bundle:
    """A folder like an unpacked bundle, and runs of it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "pkg").mkdir()
        (folder / "__main__.py").write_text(MAIN)
        (folder / "pkg/__init__.py").write_text("")
        (folder / "pkg/jobs.py").write_text(HANDLERS)

    def start(
        self, params: object, entry: str = "pkg.jobs:work", refuse: tuple[str, ...] = ()
    ) -> tuple[subprocess.Popen[str], Agent, threading.Thread]:
        """Start the runner with one end of a socket as descriptor 3."""
        ours, theirs = socket.socketpair()
        agent = Agent(ours, params, refuse)
        # The number of the job's end here may be 3 already, or in use; the shell moves it.
        shell = f'exec "$@" 3<&{theirs.fileno()}'
        process = subprocess.Popen(
            ["bash", "-c", shell, "sh", sys.executable, "-I", str(self.folder), entry],
            pass_fds=[theirs.fileno()],
            env={**os.environ, "JOBLANE_FD": "3"},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        theirs.close()
        thread = threading.Thread(target=agent.serve)
        thread.start()
        return process, agent, thread

    def run(
        self, params: object, entry: str = "pkg.jobs:work", refuse: tuple[str, ...] = ()
    ) -> Ended:
        """Run to the end."""
        process, agent, thread = self.start(params, entry, refuse)
        stdout, stderr = process.communicate(timeout=60)
        thread.join()
        agent.sock.close()
        return Ended(process.returncode, stdout, stderr, agent)


@pytest.fixture(name="bundle")
def _bundle(tmp_path: Path) -> Bundle:
    return Bundle(tmp_path)


def test_params_go_in_and_a_result_comes_out(bundle: Bundle):
    ended = bundle.run({"do": "add", "numbers": [1, 2, 3]})
    said = (ended.code, ended.stdout, ended.stderr)
    assert (0, "to stdout\n", mark("WARNING to stderr", logging.WARNING) + "\n") == said
    assert [
        {"params": True},
        {"context": True},
        {"result": {"total": 6, "said": "01J"}},
    ] == ended.agent.asked


def test_a_library_logs_through_the_handler_of_the_job(bundle: Bundle):
    assert mark("ERROR in\ntwo lines", logging.ERROR) + "\n" == bundle.run({"do": "library"}).stderr


def test_each_line_of_a_traceback_is_an_error(bundle: Bundle):
    lines = bundle.run({"do": "raise"}).stderr.removesuffix("\n").split("\n")
    assert len(lines) > 3
    assert {mark("", logging.ERROR)} == {line[:2] for line in lines}


def test_wrong_params_are_named_by_field_and_without_values(bundle: Bundle):
    ended = bundle.run({"numbers": [1, "confidential"]})
    assert ended.code == 65
    [error] = ended.agent.said("error")
    assert error.startswith("invalid params.do: Field required; params.numbers.1: Input should be")
    assert "confidential" not in error + ended.stderr


@pytest.mark.parametrize(
    ("params", "code", "error"),
    [
        ({"do": "raise"}, 1, "ValueError: a secret in two lines"),
        ({"do": "never"}, 65, "the ticket was deleted"),
        ({"do": "exit", "numbers": [0]}, 1, "the handler called sys.exit instead of returning"),
        ({"do": "wrong"}, 65, "invalid result.total: Input should be a valid integer"),
        ({"do": "big"}, 65, "the result has 300021 bytes; at most 262144 are allowed"),
    ],
)
def test_ends_that_give_no_result(bundle: Bundle, params: object, code: int, error: str):
    ended = bundle.run(params)
    assert code == ended.code
    [said] = ended.agent.said("error")
    assert said.startswith(error)
    assert not ended.agent.said("result")


def test_a_traceback_begins_in_the_handler(bundle: Bundle):
    ended = bundle.run({"do": "raise"})
    first = next(line for line in ended.stderr.splitlines() if "File" in line)
    assert "pkg/jobs.py" in first


def test_an_exit_code_of_the_handler_is_kept(bundle: Bundle):
    ended = bundle.run({"do": "exit", "numbers": [3]})
    assert (3, []) == (ended.code, ended.agent.said("error"))


def test_the_largest_result_fits(bundle: Bundle):
    ended = bundle.run({"do": "fit"})
    assert ended.code == 0
    [result] = ended.agent.said("result")
    assert len(json.dumps(result, separators=(",", ":"))) == 262_144


def test_progress_and_heartbeat(bundle: Bundle):
    ended = bundle.run({"do": "progress"})
    assert ended.code == 0
    assert [
        {"percent": 12.5, "message": "m" * 200},
        {"message": "only a message"},
        {"step": "s" * 60, "current": 1, "total": 4},
    ] == ended.agent.said("progress")
    assert [True] == ended.agent.said("heartbeat")


def test_an_agent_that_takes_no_progress_does_not_end_the_job(bundle: Bundle):
    ended = bundle.run({"do": "progress"}, refuse=("progress", "heartbeat"))
    assert ended.code == 0


def test_a_result_that_the_agent_refuses_is_an_error(bundle: Bundle):
    ended = bundle.run({"do": "add"}, refuse=("result",))
    assert ended.code == 65
    assert ["the agent refused the result: not that"] == ended.agent.said("error")


def test_block(bundle: Bundle):
    """Also in a handler that catches every Exception."""
    ended = bundle.run({"do": "block"})
    assert (75, ["app:zendesk"]) == (ended.code, ended.agent.said("block"))
    ended = bundle.run({"do": "block-any"})
    assert (75, []) == (ended.code, ended.agent.said("block"))
    assert not ended.agent.said("error")


def test_a_condition_that_is_refused_is_an_error_of_the_handler(bundle: Bundle):
    ended = bundle.run({"do": "block-refused"}, refuse=("block",))
    assert (0, [{"total": 1, "said": "not that"}]) == (ended.code, ended.agent.said("result"))


@pytest.mark.parametrize(
    ("answer", "said"),
    [("drain", "drain"), ("deadline", "deadline"), (None, "timeout")],  # the sandbox says nothing
)
def test_sigterm_is_cooperative(bundle: Bundle, answer: str | None, said: str):
    process, agent, thread = bundle.start({"do": "wait"})
    agent.stopping = answer

    def stop(request: dict[str, Any]) -> None:
        if "progress" in request:
            process.send_signal(signal.SIGTERM)

    agent.on_request = stop
    _, stderr = process.communicate(timeout=60)
    thread.join()
    agent.sock.close()
    assert (0, [{"total": 7, "said": said}]) == (process.returncode, agent.said("result")), stderr


def test_a_handler_without_a_result_sends_none(bundle: Bundle):
    ended = bundle.run({"do": ""}, entry="pkg.jobs:none")
    assert (0, []) == (ended.code, ended.agent.said("result"))


@pytest.mark.parametrize(
    ("text", "code", "error"),
    [
        ("import not_there", 65, "cannot import the handler: ModuleNotFoundError: No module named"),
        ("def (", 65, "cannot import the handler: SyntaxError: "),
        ("1 / 0", 1, "cannot import the handler: ZeroDivisionError: division by zero"),
        ("", 65, "pkg.other:work is not a job type"),
        ("work = 3", 65, "pkg.other:work is not a job type"),
    ],
)
def test_a_handler_that_cannot_be_imported(bundle: Bundle, text: str, code: int, error: str):
    (bundle.folder / "pkg/other.py").write_text(text)
    ended = bundle.run({}, entry="pkg.other:work")
    assert code == ended.code
    [said] = ended.agent.said("error")
    assert said.startswith(error)


def test_a_refusal_of_params_is_reported(bundle: Bundle):
    ended = bundle.run({}, refuse=("params",))
    assert (1, ["not that"]) == (ended.code, ended.agent.said("error"))


def test_without_an_agent_it_says_so(bundle: Bundle):
    def outcome(**env: str) -> tuple[int, str]:
        ran = subprocess.run(
            [sys.executable, "-I", str(bundle.folder), "pkg.jobs:work"],
            env=env,
            capture_output=True,
            text=True,
            check=False,
        )
        return ran.returncode, ran.stderr

    assert (1, "JOBLANE_FD is not set; handlers are run by an agent\n") == outcome()
    code, said = outcome(JOBLANE_FD="3")
    assert code == 1
    assert said.startswith(mark("no answer from the agent: ", logging.ERROR))


def test_the_runner_imports_little():
    """The start of a typed job is dominated by imports: no logging, socket or HTTP client."""
    script = "import sys, joblane.handler.runner; print(*sys.modules)"
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, check=True, text=True)
    loaded = set(ran.stdout.split())
    assert not loaded & {"logging", "socket", "httpx", "typer", "rich", "asyncio", "subprocess"}
