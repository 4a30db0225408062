"""Arguments and standard input that are sent with a submission, as a field or as a file."""

import io
import re
from pathlib import Path
from typing import Any

import pytest

from joblane import Client
from joblane.client.errors import FileError, InputError
from tests.support.client.fake_api import FakeApi
from tests.support.client.fake_files import FakeFiles, digest, submitted


class OneByOne(io.RawIOBase):
    """A pipe that gives one byte at a time."""

    def __init__(self, content: bytes) -> None:
        self._left = content

    def read(self, size: int = -1) -> bytes:
        """Read a byte."""
        assert size > 0
        piece, self._left = self._left[:1], self._left[1:]
        return piece


LARGE = "é" * 131_072
"""Exactly as many bytes as are a field."""


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ("echo hi\n", "echo hi\n"),
        (b"echo hi\n", "echo hi\n"),
        (bytearray(b"echo"), "echo"),
        (lambda: io.BytesIO(b"from a file"), "from a file"),
        (lambda: io.StringIO("text é"), "text é"),
        (lambda: OneByOne("é\0é".encode()), "é\0é"),
        (LARGE, LARGE),
        ("", None),
        (b"", None),
        (io.BytesIO, None),
    ],
)
def test_short_text_is_a_field(api: FakeApi, client: Any, given: Any, text: str | None) -> None:
    client.submit(["bash", "-s"], stdin=given() if callable(given) else given)
    assert text == submitted(api).get("stdin")
    assert "stdin_file" not in submitted(api)


@pytest.mark.parametrize("content", [b"\xff", LARGE.encode() + b"x", b"\0\xff" * 2_000_000])
@pytest.mark.parametrize("kind", ["bytes", "file", "path"])
def test_other_content_is_a_file(
    api: FakeApi, files: FakeFiles, here: Path, client: Any, content: bytes, kind: str
) -> None:
    (here / "in").write_bytes(content)
    given = {"bytes": content, "file": io.BytesIO(content), "path": here / "in"}[kind]
    client.submit(["cat"], stdin=given)
    assert digest(content) == submitted(api)["stdin_file"]
    assert "stdin" not in submitted(api)
    assert {digest(content): content} == files.stored


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"inputs": "data.csv"}, "inputs must be a list"),
        ({"inputs": {"path": "a"}}, "inputs must be a list"),
        ({"inputs": [{"path": "a"}]}, "has a path and a sha256"),
        ({"outputs": "out/**"}, "outputs must be a list"),
        ({"stdin": 7}, "stdin must be text"),
        ({"stdin": Path("nowhere")}, "cannot read nowhere: No such file"),
        ({"stdin": Path("/")}, "cannot read /: Is a directory"),
        ({"stdin": "\udcff"}, "not UTF-8"),
    ],
)
def test_mistakes_are_said_before_anything_is_sent(
    api: FakeApi, client: Any, fields: dict[str, Any], said: str
) -> None:
    with pytest.raises(InputError, match=re.escape(said)):
        client.submit(["true"], **fields)
    assert not api.requests


def test_a_standard_input_of_more_than_a_file_is_refused(
    api: FakeApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("joblane.client.files.standard_input.MAX_FILE_BYTES", 1_000_000)
    with Client(api.url) as client, pytest.raises(FileError, match="more than 1,000,000 bytes"):
        client.submit(["cat"], stdin=b"\xff" * 1_000_001)
    assert not api.requests
