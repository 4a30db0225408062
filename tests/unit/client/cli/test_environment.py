"""`-e` and `--env-file` of `run` and `submit`: what becomes the job's environment."""

from pathlib import Path

import pytest

from tests.support.client.command import Joblane
from tests.support.client.fake_api import FakeApi


@pytest.mark.parametrize("command", ["run", "submit"])
def test_a_variable_is_given_or_taken_from_here(
    api: FakeApi, joblane: Joblane, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    monkeypatch.setenv("TOKEN", "a=b c")
    monkeypatch.setenv("EMPTY", "")
    given = ("-e", "A=1", "--env", "B=", "-e", "TOKEN", "-eEMPTY", "-e", "A=2")
    assert 0 == joblane(command, *given, "--", "x").code
    assert {"A": "2", "B": "", "TOKEN": "a=b c", "EMPTY": ""} == api.requests[0].body["env"]


def test_a_file_is_that_of_docker(
    api: FakeApi, joblane: Joblane, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HERE", "mine")
    first, second = tmp_path / "first.env", tmp_path / "second.env"
    first.write_bytes(
        b'\xef\xbb\xbf# a comment\n\nA=1\r\n  B=two words # no comment\nC="quoted"\nHERE\nD=\n'
    )
    second.write_text("A=later\nE=a=b")
    files = ("--env-file", str(first), "--env-file", str(second))
    assert 0 == joblane("submit", *files, "-e", "D=option", "--", "x").code
    assert {
        "A": "later",
        "B": "two words # no comment",
        "C": '"quoted"',
        "HERE": "mine",
        "D": "option",
        "E": "a=b",
    } == api.requests[0].body["env"]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"A=1\nnot set here\n", "line 2 must be KEY=VALUE"),
        (b"=1\n", "line 1 must be KEY=VALUE"),
        (b"A B=1\n", "line 1 must be KEY=VALUE"),
        (b"A=1\n\nNOT_SET\n", "line 3: NOT_SET is not set here; write NOT_SET=VALUE"),
        (b"A=\xff\n", "is not UTF-8"),
        (b"A=1\n" * 300_000, "is larger than 1,000,000 bytes"),
    ],
)
def test_a_bad_file_is_refused_with_its_line(
    api: FakeApi, joblane: Joblane, tmp_path: Path, content: bytes, said: str
) -> None:
    file = tmp_path / "env"
    file.write_bytes(content)
    ran = joblane("run", "--env-file", str(file), "--", "x")
    assert (2, b"", []) == (ran.code, ran.stdout, api.requests)
    assert f"--env-file {file}" in ran.said
    assert said in ran.said
    assert 1 == len(ran.said.splitlines())


def test_a_file_that_is_not_there_is_refused(api: FakeApi, joblane: Joblane, tmp_path: Path):
    for file, why in ((tmp_path / "no", "No such file"), (tmp_path, "Is a directory")):
        ran = joblane("submit", "--env-file", str(file), "--", "x")
        assert (2, []) == (ran.code, api.requests)
        assert f"--env-file {file}: {why}" in ran.said


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("NOT_SET", "--env: NOT_SET is not set here; write NOT_SET=VALUE"),
        ("=1", "--env must be KEY=VALUE"),
        ("", "--env must be KEY=VALUE"),
        ("A B=1", "--env must be KEY=VALUE"),
    ],
)
def test_a_variable_that_is_none_is_refused(api: FakeApi, joblane: Joblane, given: str, said: str):
    ran = joblane("run", "-e", given, "--", "x")
    assert (2, b"", []) == (ran.code, ran.stdout, api.requests)
    assert said in ran.said
