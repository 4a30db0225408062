"""Uploads: what is sent, what is not sent again, and what is refused."""

import asyncio
import os
import threading
from pathlib import Path
from typing import Any

import pytest

from joblane import AsyncClient, Client
from joblane.client.errors import AnswerError, FileError, InputError, UnreachableError
from joblane.client.files import models
from joblane.client.files.reading import LocalFile
from tests.support.client.fake_api import CUT, FakeApi, ok
from tests.support.client.fake_files import EXPIRED, FakeFiles, digest, submitted


def test_a_submission_uploads_its_inputs(api: FakeApi, files: FakeFiles, here: Path, client: Any):
    (here / "src").mkdir()
    (here / "src" / "my.sh").write_bytes(b"echo hi\n")
    (here / "src" / "my.sh").chmod(0o755)
    (here / "empty").write_bytes(b"")
    client.submit(["./src/my.sh"], inputs=["src/", Path("empty")], outputs=["out/**"])
    script, empty = digest(b"echo hi\n"), digest(b"")
    assert submitted(api) == {
        "command": ["./src/my.sh"],
        "inputs": [
            {"path": "src/my.sh", "sha256": script, "mode": "0755"},
            {"path": "empty", "sha256": empty, "mode": "0644"},
        ],
        "outputs": ["out/**"],
    }
    assert files.stored == {script: b"echo hi\n", empty: b""}


def test_a_submission_warns_of_what_it_leaves_out(
    api: FakeApi, files: FakeFiles, here: Path, client: Any
) -> None:
    del files
    (here / "a").write_text("a")
    (here / "out").symlink_to("/etc/passwd")
    with pytest.warns(UserWarning, match="^out is left out of the job's inputs: it is a link that"):
        client.submit(["true"], inputs=["."])
    assert ["a"] == [file["path"] for file in submitted(api)["inputs"]]
    uploaded = client.files.put(["."], exclude=["a"])
    assert ([], ["out"]) == (uploaded.files, [name for name, _ in uploaded.left_out])
    with pytest.raises(InputError, match="exclude must be a list"):
        client.files.put(["."], exclude="a")


def test_a_submission_without_files_asks_for_nothing_else(api: FakeApi, client: Any) -> None:
    client.submit(["true"], inputs=[], stdin="")
    assert [{"command": ["true"]}] == [request.body for request in api.requests]


def test_files_are_asked_for_in_batches_and_each_content_once(
    api: FakeApi, files: FakeFiles, here: Path, client: Any
) -> None:
    for number in range(250):
        (here / f"{number}").write_text(str(number))
        (here / f"again{number}").write_text(str(number))
    uploaded = client.files.put(["."])
    asked = [len(each.body["files"]) for each in api.requests if each.path == "/v1/files"]
    assert [100, 100, 50] == asked
    assert 250 == len(files.puts) == uploaded.sent
    assert 500 == len(uploaded.files)


def test_several_files_are_sent_at_once(files: FakeFiles, here: Path, client: Any) -> None:
    """Eight wait for one another before any is answered."""
    for number in range(16):
        (here / f"{number}").write_text(str(number))
    together = threading.Barrier(8)

    def meet(_digest: str) -> None:
        together.wait(timeout=20)

    files.before_put = meet
    assert 16 == client.files.put(["."]).sent


def test_an_upload_that_failed_continues_with_what_is_missing(
    api: FakeApi, files: FakeFiles, here: Path, client: Any
) -> None:
    for number in range(40):
        (here / f"{number}").write_text(str(number))
    refused = threading.Event()

    def fail_in_the_middle(_digest: str) -> None:
        if len(files.puts) >= 20 and not refused.is_set():
            refused.set()
            files.faults.append((400, {}, b"<Code>Odd</Code>"))

    files.before_put = fail_in_the_middle
    with pytest.raises(AnswerError, match="was not taken: 400 <Code>Odd"):
        client.submit(["true"], inputs=["."])
    assert not [each for each in api.requests if each.path == "/v1/jobs"]
    first = len(files.puts)
    assert 20 <= first < 40
    assert 40 - first == client.files.put(["."]).sent
    assert 40 == len(files.puts) == len(set(files.puts))


@pytest.mark.usefixtures("files")
def test_uploaded_files_are_inputs_of_many_submissions(api: FakeApi, here: Path, client: Any):
    (here / "a").write_text("a")
    uploaded = client.files.put(["a"])
    asked = len(api.requests)
    for number in range(3):
        more = {"path": "b", "sha256": digest(b"a")}
        client.submit(["true", str(number)], inputs=[*uploaded.files, more])
    assert asked + 3 == len(api.requests)
    assert [
        {"path": "a", "sha256": digest(b"a"), "mode": "0644"},
        {"path": "b", "sha256": digest(b"a"), "mode": "0644"},
    ] == api.requests[-1].body["inputs"]


@pytest.mark.parametrize("fault", [CUT, (503, {}, b"<Code>SlowDown</Code>"), EXPIRED])
def test_a_transfer_is_repeated(files: FakeFiles, here: Path, client: Any, fault: Any) -> None:
    """After a lost connection, 5xx, and with a new signature after 403."""
    (here / "a").write_text("a" * 3_000_000)
    files.faults.extend([fault, fault])
    assert 1 == client.files.put(["a"]).sent
    assert {digest(b"a" * 3_000_000)} == set(files.stored)


@pytest.mark.parametrize(
    ("fault", "kind", "said"),
    [
        (CUT, UnreachableError, "cannot upload a: "),
        ((503, {}, b"busy"), AnswerError, "a was not taken: 503 busy"),
        (EXPIRED, AnswerError, "a was not taken: 403 .*expired"),
    ],
)
def test_a_transfer_is_given_up(
    files: FakeFiles, here: Path, client: Any, fault: Any, kind: type[Exception], said: str
) -> None:
    (here / "a").write_text("a")
    files.faults.extend([fault] * 20)
    with pytest.raises(kind, match=said):
        client.files.put(["a"])
    assert not files.stored


@pytest.mark.parametrize(
    "answer",
    [
        [],
        {"files": []},
        {"files": [{"sha256": "0" * 64, "exists": True}]},
        {"files": [{"sha256": digest(b"a"), "exists": False, "upload": None}]},
        {"files": [{"sha256": digest(b"a"), "upload": {"url": "file:///etc", "headers": {}}}]},
        {"files": [{"sha256": digest(b"a"), "upload": {"url": "/s3", "headers": {}}}]},
    ],
)
def test_an_answer_that_names_no_place_is_refused(
    api: FakeApi, here: Path, client: Any, answer: object
) -> None:
    (here / "a").write_text("a")
    api.answers["/v1/files"] = ok(answer)
    with pytest.raises(AnswerError):
        client.files.put(["a"])


def test_a_file_that_changes_before_it_is_sent_is_named(
    api: FakeApi, files: FakeFiles, here: Path, client: Any
) -> None:
    (here / "a").write_text("a")

    def change(request: Any) -> None:
        if request.path == "/v1/files":
            (here / "a").write_text("b")

    api.before = change
    with pytest.raises(FileError, match=r"^a changed while it was read"):
        client.submit(["true"], inputs=["a"])
    assert not files.stored
    assert not [each for each in api.requests if each.path == "/v1/jobs"]


def test_a_change_that_nothing_shows_here_is_refused_by_the_checksum(
    api: FakeApi, files: FakeFiles, here: Path, client: Any
) -> None:
    """The same size, and the old time put back."""
    (here / "a").write_text("a")
    found = (here / "a").stat()

    def change(request: Any) -> None:
        if request.path == "/v1/files":
            (here / "a").write_text("b")
            os.utime("a", ns=(found.st_atime_ns, found.st_mtime_ns))

    api.before = change
    with pytest.raises(FileError, match=r"a changed .*S3 has refused"):
        client.files.put(["a"])
    assert not files.stored


@pytest.mark.parametrize("swap", ["link", "moved", "other", "pipe", "longer", "shorter", "gone"])
def test_what_takes_the_place_of_a_file_is_not_read(here: Path, swap: str) -> None:
    (here / "a").write_bytes(b"a" * 3_000_000)
    found = (here / "a").stat()
    identity = (found.st_dev, found.st_ino, found.st_mtime_ns)
    file = LocalFile(str(here / "a"), "a", "a", "0644", found.st_size, identity)
    match swap:
        case "link":
            (here / "b").write_text("content")
            (here / "a").unlink()
            (here / "a").symlink_to("b")
        case "moved":
            (here / "a").rename(here / "b")
            (here / "a").symlink_to("b")
        case "other":
            (here / "a").unlink()
            (here / "a").write_bytes(b"x" * 3_000_000)
        case "pipe":
            (here / "a").unlink()
            os.mkfifo(here / "a")
        case "longer":
            (here / "a").write_text("content, and more")
        case "shorter":
            (here / "a").write_text("c")
        case _:
            (here / "a").unlink()
    pieces = file.chunks(threading.Event())
    with pytest.raises(FileError, match=r"^(a changed while|cannot read a: )"):
        next(pieces)


def test_a_file_that_grows_while_it_is_sent_is_never_complete(here: Path) -> None:
    (here / "a").write_bytes(b"a" * 2_500_000)
    found = (here / "a").stat()
    identity = (found.st_dev, found.st_ino, found.st_mtime_ns)
    file = LocalFile(str(here / "a"), "a", "a", "0644", found.st_size, identity)
    pieces = file.chunks(threading.Event())
    next(pieces)
    with (here / "a").open("ab") as more:
        more.write(b"b")
    next(pieces)
    with pytest.raises(FileError, match="a changed while it was read"):
        next(pieces)


def test_a_cancelled_upload_ends(api: FakeApi, files: FakeFiles, here: Path) -> None:
    """The threads of an upload whose task was cancelled send nothing more."""
    for number in range(100):
        (here / f"{number}").write_text(str(number))
    begun, go_on = threading.Event(), threading.Event()

    def hold(_digest: str) -> None:
        begun.set()
        go_on.wait(20)

    files.before_put = hold

    async def cancelled() -> None:
        async with AsyncClient(api.url) as client:
            task = asyncio.ensure_future(client.files.put(["."]))
            await asyncio.to_thread(begun.wait, 20)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            go_on.set()

    asyncio.run(cancelled())  # waits for the thread
    assert len(files.puts) <= 8


def test_progress_counts_each_byte_once(api: FakeApi, files: FakeFiles, here: Path) -> None:
    """Also when a transfer is repeated, and for what is there already."""

    class Count(models.NoProgress):
        def __init__(self) -> None:
            self.phases: list[list[Any]] = []
            self.lock = threading.Lock()

        def start(self, what: str, files: int, size: int) -> None:
            self.phases.append([what, files, size, 0, 0])

        def add(self, size: int, files: int = 0) -> None:
            with self.lock:
                self.phases[-1][3] += files
                self.phases[-1][4] += size

    (here / "a").write_bytes(b"a" * 2_000_000)
    (here / "b").write_bytes(b"b" * 500)
    files.stored[digest(b"b" * 500)] = b""
    files.faults.extend([CUT, EXPIRED])
    count = Count()
    with Client(api.url) as client:
        client.files.put(["a", "b"], progress=count)
    total = 2_000_500
    assert [["reading", 2, total, 2, total], ["uploading", 2, total, 2, total]] == count.phases
