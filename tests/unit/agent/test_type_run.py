"""What `joblane types run` starts: a handler in a real sandbox here, without a deployment."""

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ec2_agent import type_run
from ec2_agent.attempt.typed import find_python
from ec2_agent.sandbox.model import HostReport
from tests.sandbox.running import REPOSITORY
from tests.support.bundle import make_bundle

Run = Callable[..., tuple[int, str, str]]

pytestmark = pytest.mark.skipif(
    find_python("3.11") is None, reason="jobs here have no python3.11 in /usr"
)

HANDLERS = """
import signal, sys, time
from pydantic import BaseModel
from joblane import Job, PermanentError, job_type

class Params(BaseModel):
    do: str
    numbers: list[int] = []

class Result(BaseModel):
    total: int
    text: str = ""

@job_type("sum", items="/numbers", heartbeat_timeout_s=5)
def total(params: Params, job: Job) -> Result:
    print("doing", params.do, flush=True)
    if params.do == "progress":
        job.progress(50, "half way")
        time.sleep(0.5)
    if params.do == "key":
        print("key", job.context.key)
    if params.do == "raise":
        raise ValueError("no such thing")
    if params.do == "permanent":
        raise PermanentError("closed for good")
    if params.do == "wait":
        while not job.cancelled:
            time.sleep(0.01)
        sys.exit(9)
    if params.do == "kill":
        import os; os.kill(os.getpid(), signal.SIGKILL)
    if params.do == "long":
        return Result(total=1, text="x" * 100_000)
    return Result(total=sum(params.numbers))
"""

SCHEMA = {
    "type": "object",
    "required": ["do"],
    "properties": {"do": {"type": "string"}, "numbers": {"type": "array"}},
}


@pytest.fixture(name="bundle", scope="module")
def _bundle(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    folder = tmp_path_factory.mktemp("run")
    digest, data = make_bundle(folder, {"shop/jobs.py": HANDLERS})
    (folder / "shop.zip").write_bytes(data)
    return digest, folder / "shop.zip"


def order(bundle: tuple[str, Path], into: Path, params: object, **members: Any) -> Path:
    definition = {
        "entry": "shop.jobs:total",
        "python": "3.11",
        "bundles": {"x86_64": bundle[0]},
        "params_schema": SCHEMA,
        "defaults": {"heartbeat_timeout_s": 5, "resources": {"memory_mb": 256}},
        **members,
    }
    text = params if isinstance(params, str) else json.dumps(params)
    whole = {
        "name": "sum",
        "definition": definition,
        "bundle": str(bundle[1]),
        "params": text,
        "network": None,
    }
    file = into / "order.json"
    file.write_text(json.dumps(whole))
    return file


def begin(file: Path) -> "subprocess.Popen[str]":
    paths = f"{REPOSITORY}:{REPOSITORY}/layers/core/python"
    return subprocess.Popen(
        [sys.executable, "-m", "ec2_agent.type_run", str(file)],
        env={**os.environ, "PYTHONPATH": paths},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.fixture(name="run")
def _run(bundle: tuple[str, Path], tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> Run:
    """Runs an order in this process."""

    def run(params: object, **members: Any) -> tuple[int, str, str]:
        code = type_run.main([str(order(bundle, tmp_path, params, **members))])
        return code, *capfd.readouterr()

    return run


def test_the_result_is_all_that_is_on_standard_output(run: Run):
    code, out, err = run({"do": "progress", "numbers": [1, 2]})
    assert (0, {"total": 3, "text": ""}) == (code, json.loads(out)), err
    assert "doing progress\n" in err
    assert "joblane: 50 % half way\n" in err
    assert "joblane: succeeded: exit code 0 after" in err


def test_what_a_type_declares_is_as_in_a_deployment(run: Run):
    key = {"segments": ["shop", "/do", True]}
    code, _, err = run({"do": "key"}, defaults={"deadline_s": 60}, key=key)
    assert 0 == code, err
    assert "key ('shop', 'key', True)\n" in err
    code, _, err = run({"do": "key"}, key={"segments": ["/customer"]})
    assert (65, True) == (code, "not started: params/customer is part of the key: " in err), err


def test_a_long_result_is_printed_whole(run: Run):
    code, out, _ = run({"do": "long"})
    assert (0, "x" * 100_000) == (code, json.loads(out)["text"])


@pytest.mark.parametrize(
    ("params", "code", "why"),
    [
        ({"do": "raise"}, 1, "joblane: failed: ValueError: no such thing\n"),
        ({"do": "permanent"}, 65, "joblane: permanent: closed for good\n"),
        ({"do": "kill"}, 128 + signal.SIGKILL, "joblane: failed: killed by SIGKILL"),
        ({"do": 3}, 65, "joblane: not started: params.do: must be a string\n"),
        ({"numbers": 3}, 65, "not started: params.do: required; params.numbers: must be an array"),
        ({"do": "x", "numbers": ["y"]}, 65, "permanent: invalid params.numbers.0"),
        ("[1]", 65, "joblane: not started: params: must be an object\n"),
        ('{"do": "x", "do": "y"}', 65, "joblane: not started: params: "),
        ("{", 65, "joblane: not started: params: is not JSON"),
    ],
)
def test_every_other_end_has_its_code_and_its_reason_and_no_result(
    run: Run, params: object, code: int, why: str
):
    found, out, err = run(params)
    assert (code, "") == (found, out), err
    assert why in err


@pytest.mark.parametrize(
    ("members", "why"),
    [
        ({"python": "3.99"}, "there is no python3.99 below /usr"),
        ({"bundles": {"x86_64": "1" * 64}}, "has another digest"),
        ({"defaults": {"network": "egress"}}, "network egress"),
    ],
)
def test_what_cannot_run_here_is_one_line(run: Run, members: dict[str, Any], why: str):
    if why == "network egress" and os.geteuid() == 0 and shutil.which("nft"):
        pytest.skip("network egress works here")
    code, out, err = run({"do": "x"}, **members)
    assert (69, "") == (code, out)
    assert why in err
    lines = [line for line in err.splitlines() if "not limited here" not in line]
    assert 1 == len(lines)


def test_a_host_that_isolates_nothing_is_one_line(
    bundle: tuple[str, Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
):
    monkeypatch.setattr(type_run, "probe", lambda: HostReport(None, ()))
    assert 69 == type_run.main([str(order(bundle, tmp_path, {"do": "x"}))])
    shown = capsys.readouterr()
    assert ("", 1) == (shown.out, shown.err.count("\n"))
    assert "joblane doctor" in shown.err


def test_an_interrupt_cancels_the_job(bundle: tuple[str, Path], tmp_path: Path):
    child = begin(order(bundle, tmp_path, {"do": "wait"}))
    assert child.stderr is not None
    while "doing wait" not in child.stderr.readline():
        assert None is child.poll()
    child.send_signal(signal.SIGINT)
    out, err = child.communicate(timeout=60)
    assert "joblane: cancelled: cancelled; ended after" in err
    assert (9, "") == (child.returncode, out)
