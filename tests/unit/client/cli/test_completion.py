"""Completion in shells: the script that is printed, and what it is answered."""

import os
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from joblane.client.cli import completion
from joblane.state.lifecycle import State
from tests.support.client.command import Joblane
from tests.support.client.fake_api import FakeApi, Fault, ok, problem
from tests.support.warm import Warm

ASKED = {
    "bash": lambda words: {
        "_JOBLANE_COMPLETE": "complete_bash",
        "COMP_WORDS": " ".join(words),
        "COMP_CWORD": str(len(words) - 1),
    },
    "zsh": lambda words: {
        "_JOBLANE_COMPLETE": "complete_zsh",
        "_TYPER_COMPLETE_ARGS": " ".join(words),
    },
    "fish": lambda words: {
        "_JOBLANE_COMPLETE": "complete_fish",
        "_TYPER_COMPLETE_ARGS": " ".join(words),
        "_TYPER_COMPLETE_FISH_ACTION": "get-args",
    },
}
"""What the script of each shell sets."""


Complete = Callable[..., list[str]]


def asked(api: FakeApi, shell: str, *words: str, **more: str) -> dict[str, str]:
    """The variables of a call of the command line for values."""
    return {
        "JOBLANE_URL": api.url,
        "JOBLANE_TOKEN": "secret",
        "JOBLANE_COMPLETION_S": "60",  # a busy host is no reason to offer nothing
        **ASKED[shell](["joblane", *words]),
        **more,
    }


def offered(shell: str, text: str) -> list[str]:
    """The values in an answer."""
    if shell == "zsh":  # _arguments '*: :(("value":"help"\\n"value"))'
        return re.findall(r'(?:\(\(|\n)"([^"]+)"', text)
    return [line.split("\t")[0] for line in text.splitlines() if line]


@pytest.fixture
def complete(
    api: FakeApi,
    joblane: Joblane,
    monkeypatch: pytest.MonkeyPatch,
    capfdbinary: pytest.CaptureFixture[bytes],
) -> Complete:
    """The values that are offered by a call in this process; nothing else may be printed."""

    def call(shell: str, *words: str, **more: str) -> list[str]:
        with monkeypatch.context() as patch:
            for name, value in asked(api, shell, *words, **more).items():
                patch.setenv(name, value)
            with pytest.raises(SystemExit):
                joblane()
        said = capfdbinary.readouterr()
        assert b"" == said.err
        return offered(shell, said.out.decode())

    return call


def complete_in_process(api: FakeApi, shell: str, *words: str, **more: str) -> list[str]:
    """The same of a process of its own, as a shell starts it."""
    environment = {**os.environ, **asked(api, shell, *words, **more)}
    program = [sys.executable, "-P", "-c", "from joblane.client.cli import main; main()"]
    ran = subprocess.run(program, env=environment, capture_output=True, text=True, check=False)
    assert "" == ran.stderr
    return offered(shell, ran.stdout)


@pytest.fixture(autouse=True)
def _deployment(api: FakeApi) -> None:
    entries = [{"name": "bulk"}, {"name": "default"}]
    api.answers["/v1/queues"] = ok({"entries": entries, "limit": 10, "next": None})
    api.answers["/v1/types"] = ok({"entries": [{"type": "sync-tickets"}], "next": None})
    api.add("01MCC5RM002VP5C98RFS3H2QM0", labels={"team": "web"}, name="nightly")
    api.add("01MCC5RM02X0EEJP5N5QNGWM0A", labels={"team": "app"})


@pytest.mark.parametrize("shell", sorted(ASKED))
@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["ls", "--state", "c"], ["completed", "cancelled"]),
        (["ls", "--queue", ""], ["bulk", "default"]),
        (["submit", "--queue", "b"], ["bulk"]),
        (["submit", "--type", "s"], ["sync-tickets"]),
        (["cancel", "--label", "team=w"], ["team=web"]),
        (["submit", "--priority", "h"], ["high"]),
        (["get", ""], ["01MCC5RM02X0EEJP5N5QNGWM0A", "01MCC5RM002VP5C98RFS3H2QM0"]),
        (["wait", "01MCC5RM02X0EEJP5N5QNGWM0A", "01MCC5RM00"], ["01MCC5RM002VP5C98RFS3H2QM0"]),
        (["queues", "show", "d"], ["default"]),
        (["queues", "pa"], ["pause"]),
    ],
)
def test_values_are_completed(
    complete: Complete, shell: str, words: list[str], expected: list[str]
) -> None:
    assert sorted(expected) == sorted(complete(shell, *words))


@pytest.mark.parametrize("shell", sorted(ASKED))
def test_a_process_of_its_own_offers_the_same(api: FakeApi, shell: str) -> None:
    assert ["bulk", "default"] == complete_in_process(api, shell, "ls", "--queue", "")
    if shell == "bash":
        assert ["pause"] == complete_in_process(api, shell, "queues", "pa")


def test_all_states_are_offered(complete: Complete) -> None:
    assert set(State) == set(complete("bash", "retry", "--state", ""))


@pytest.mark.parametrize("answer", [problem(403, "Forbidden"), ok([]), ok({"entries": [1]}), "cut"])
def test_errors_are_silent(api: FakeApi, complete: Complete, answer: Fault) -> None:
    api.answers["/v1/queues"] = answer
    assert [] == complete("bash", "ls", "--queue", "")
    assert "/v1/queues" in {request.path for request in api.requests}


def test_without_an_api_it_is_silent(complete: Complete) -> None:
    assert [] == complete("fish", "get", "", JOBLANE_URL="")
    assert [] == complete("fish", "get", "", JOBLANE_URL="http://127.0.0.1:1")


def test_an_api_that_does_not_answer_is_not_waited_for(api: FakeApi) -> None:
    answered = threading.Event()
    api.before = lambda _request: (answered.wait(60), None)[1]
    assert [] == complete_in_process(api, "bash", "ls", "--queue", "", JOBLANE_COMPLETION_S="0.5")
    assert not answered.is_set()
    answered.set()


@pytest.mark.parametrize(
    ("told", "limit_s"),
    [
        ("", completion.TIMEOUT_S),
        ("0", 0),
        ("60", 60),
        ("61", completion.TIMEOUT_S),
        ("-1", completion.TIMEOUT_S),
        ("nan", completion.TIMEOUT_S),
        ("soon", completion.TIMEOUT_S),
    ],
)
def test_how_long_it_waits_can_be_told(told: str, limit_s: float) -> None:
    assert limit_s == completion.limit_s(told)


def test_bash_completes_with_the_script(
    api: FakeApi, joblane: Joblane, forked: Warm, tmp_path: Path
) -> None:
    script = joblane("completion", "bash").stdout.decode()
    forked.write_script(tmp_path / "joblane")
    function = script.split("()")[0].strip()
    test = f"{script}\nCOMP_WORDS=(joblane ls --queue b) COMP_CWORD=3\n{function} joblane\n"
    ran = subprocess.run(
        ["bash", "--norc", "-c", f'{test}echo "${{COMPREPLY[@]}}"; complete -p joblane'],
        env={
            "PATH": f"{tmp_path}:{os.environ['PATH']}",
            "JOBLANE_URL": api.url,
            "JOBLANE_TOKEN": "secret",
            "JOBLANE_COMPLETION_S": "60",
            "HOME": str(tmp_path),
        },
        capture_output=True,
        text=True,
        check=True,
    )
    values, registered = ran.stdout.splitlines()
    assert ("bulk", "") == (values, ran.stderr)
    assert registered.endswith(f"-F {function} joblane")


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_the_scripts_of_other_shells_are_valid(joblane: Joblane, shell: str) -> None:
    ran = joblane("completion", shell)
    assert (0, "") == (ran.code, ran.said)
    assert f"complete_{shell}" in ran.stdout.decode()
    if (program := shutil.which(shell)) is not None:
        subprocess.run([program, "-n"], input=ran.stdout, check=True)


def test_an_unknown_shell_is_refused(joblane: Joblane) -> None:
    ran = joblane("completion", "csh")
    assert (2, b"") == (ran.code, ran.stdout)
