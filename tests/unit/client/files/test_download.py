"""Downloads: into a directory, never outside of it, and only what the job has left."""

import errno
import os
import re
import stat
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from joblane.client.errors import (
    AnswerError,
    DownloadError,
    FileError,
    NotFoundError,
    UnreachableError,
)
from joblane.client.files import storage
from joblane.client.files.destination import Destination
from tests.support.client.clients import Connect
from tests.support.client.fake_api import CUT, FakeApi
from tests.support.client.fake_files import EXPIRED, FakeFiles
from tests.support.depth import budget


@pytest.fixture(name="files")
def _files(api: FakeApi, monkeypatch: pytest.MonkeyPatch) -> FakeFiles:
    monkeypatch.setattr(storage, "BACKOFF_S", 0.01)
    api.add("01J").end()
    return FakeFiles(api)


@pytest.fixture(name="home")
def _home(tmp_path: Path) -> Path:
    """The directory to write to, with another one beside it."""
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "home").mkdir()
    return tmp_path / "home"


def tree(folder: Path) -> dict[str, tuple[int, bytes]]:
    """Mode and content of each file."""
    return {
        path.relative_to(folder).as_posix(): (stat.S_IMODE(path.stat().st_mode), path.read_bytes())
        for path in folder.rglob("*")
        if path.is_file()
    }


def test_a_tree_comes_home(api: FakeApi, files: FakeFiles, home: Path, client: Any) -> None:
    """With its modes, names that URLs quote, empty files, over several pages of the list."""
    expected = {
        "out/deep/er/a b%2F?.txt": (0o644, b"text"),
        "out/run.sh": (0o755, b"#!/bin/sh\n"),
        "out/empty": (0o600, b""),
        "out/é": (0o444, b"\xff" * 3_000_000),
        "log": (0o777, b"\r\n"),
    }
    for path, (mode, content) in expected.items():
        files.leave(path, content, f"{mode:04o}")
    files.page = 2
    files.about = {"unmatched": ["x/*"], "skipped": [{"path": "l", "why": "a link"}]}
    job = client.get("01J")
    found = job.outputs()
    assert list(expected) == [file.path for file in found.files]
    assert (["x/*"], [("l", "a link")], 1) == (
        found.unmatched,
        found.skipped,
        found.skipped_count,
    )
    assert job.download(home / "new" / "folder").size == 3_000_016
    assert expected == tree(home / "new" / "folder")
    tokens = [each.headers.get("Authorization") for each in api.requests if "/s3/" in each.path]
    assert 5 == len(tokens)
    assert {None} == set(tokens)


def test_the_token_stays_with_the_api(api: FakeApi, files: FakeFiles, home: Path, connect: Connect):
    files.leave("a", b"a")
    with connect(api.url, "secret") as client:
        client.download("01J", home)
    sent = {each.path: each.headers.get("Authorization") for each in api.requests}
    assert {"/v1/jobs/01J/outputs": "Bearer secret", "/s3/outputs/a": None} == sent


def test_many_files_are_few_requests(api: FakeApi, files: FakeFiles, home: Path, client: Any):
    """Two pages are listed, and listed again with URLs; one file of many has one URL signed."""
    for number in range(150):
        files.leave(f"out/{number:03}", b"")
    client.download("01J", home)
    asked = [each.path for each in api.requests if each.path.startswith("/v1/")]
    assert ["/v1/jobs/01J/outputs"] * 4 == asked
    client.download("01J", home / "one", ["out/149"])
    assert 150 + 1 == len(tree(home))
    single = [each.path for each in api.requests if each.path.startswith("/v1/")][4:]
    assert [*["/v1/jobs/01J/outputs"] * 2, "/v1/jobs/01J/outputs/out/149"] == single


def test_a_url_that_has_ended_is_signed_anew(
    api: FakeApi, files: FakeFiles, home: Path, client: Any
) -> None:
    files.leave("a", b"content")
    files.faults.append(EXPIRED)
    client.download("01J", home)
    assert {"a": (0o644, b"content")} == tree(home)
    assert 1 == api.count("GET", "/v1/jobs/01J/outputs/a")


@pytest.mark.parametrize(
    ("paths", "expected"),
    [
        (["a"], ["a"]),
        (["out"], ["out/b/c", "out/d"]),
        (["out/", "a"], ["a", "out/b/c", "out/d"]),
        (["./out/*"], ["out/d"]),
        (["**/c"], ["out/b/c"]),
    ],
)
def test_paths_and_globs_select(
    files: FakeFiles, home: Path, client: Any, paths: list[str], expected: list[str]
) -> None:
    for path in ("a", "out/b/c", "out/d"):
        files.leave(path, b"")
    client.download("01J", home, paths)
    assert expected == sorted(tree(home))


@pytest.mark.parametrize("path", ["nothing", "../a", "/a", "", "out/["])
def test_a_path_that_selects_nothing_is_named(files: FakeFiles, home: Path, client: Any, path: str):
    files.leave("a", b"")
    with pytest.raises(FileError, match=r"no .*file"):
        client.download("01J", home, ["a", path])
    assert {} == tree(home)


@pytest.mark.parametrize(
    "path",
    [
        "../x",
        "..",
        "a/../../x",
        "a/..",
        "/etc/x",
        "//x",
        "./x",
        "a//x",
        "a/",
        "",
        ".",
        "a\nb",
        "a\0b",
        "\x1b]0;x\x07",
        "x" * 256,
    ],
)
def test_a_path_that_leads_elsewhere_is_refused_and_nothing_is_written(
    files: FakeFiles, home: Path, client: Any, path: str
) -> None:
    files.leave("good", b"good")
    files.leave(path, b"bad")
    with pytest.raises(AnswerError, match="nothing was downloaded"):
        client.download("01J", home)
    assert [] == list(home.iterdir())
    assert ["elsewhere", "home"] == sorted(each.name for each in home.parent.iterdir())


@pytest.mark.parametrize("paths", [["a", "a"], ["a", "a/b"], ["a/b", "a"]])
def test_paths_that_cannot_be_beside_each_other_are_refused(
    files: FakeFiles, home: Path, client: Any, paths: list[str]
) -> None:
    for path in paths:
        files.leave(path, b"")
    with pytest.raises(AnswerError, match="nothing was downloaded"):
        client.download("01J", home)
    assert {} == tree(home)


@pytest.mark.parametrize(
    "wrong",
    [
        {"sha256": "x"},
        {"sha256": None},
        {"size": "1"},
        {"size": -1},
        {"mode": "4755"},
        {"mode": "0o7"},
        {"path": None},
        {"path": ["a"]},
    ],
)
def test_an_entry_that_cannot_be_read_is_refused(
    files: FakeFiles, home: Path, client: Any, wrong: dict[str, Any]
) -> None:
    files.leave("a", b"a")
    files.outputs[0] |= wrong
    with pytest.raises(AnswerError, match="cannot be read"):
        client.download("01J", home)
    assert {} == tree(home)


def test_a_link_in_the_way_is_not_followed(
    api: FakeApi, files: FakeFiles, home: Path, connect: Connect
) -> None:
    (home / "out").symlink_to("../elsewhere")
    files.leave("out/x", b"x")
    with (
        connect(api.url) as client,
        pytest.raises(FileError, match=r"home/out is a link, which is not followed"),
    ):
        client.download("01J", home)
    (home / "out").unlink()
    (home / "out").mkdir()
    (home / "out" / "deep").symlink_to(home.parent / "elsewhere")
    files.leave("out/deep/y", b"y")
    with connect(api.url) as client, pytest.raises(FileError, match="out/deep is a link"):
        client.download("01J", home, ["out/deep"])
    assert [] == list((home.parent / "elsewhere").iterdir())


def test_a_link_in_place_of_the_file_is_replaced_and_its_target_stays(
    files: FakeFiles, home: Path, client: Any
) -> None:
    target = home.parent / "elsewhere" / "kept"
    target.write_text("kept")
    (home / "a").symlink_to(target)
    (home / "b").symlink_to("nowhere")
    os.link(target, home / "c")
    for name in "abc":
        files.leave(name, b"new")
    kept = client.download("01J", home).kept
    assert [(name, "it is here already") for name in "abc"] == kept
    client.download("01J", home, replace=True)
    assert "kept" == target.read_text()
    assert dict.fromkeys("abc", (0o644, b"new")) == tree(home)
    assert not any(path.is_symlink() for path in home.iterdir())


def test_the_directory_itself_may_be_a_link(files: FakeFiles, home: Path, client: Any) -> None:
    """The caller has named it."""
    (home / "link").symlink_to("../elsewhere")
    files.leave("a", b"a")
    client.download("01J", home / "link")
    assert ["a"] == list(tree(home.parent / "elsewhere"))


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda home: (home / "out").write_text(""), "home/out is no directory"),
        (lambda home: (home / "out" / "x").mkdir(parents=True), "cannot write .*home/out/x: Is a"),
    ],
)
def test_what_is_in_the_way_is_named(
    files: FakeFiles, home: Path, client: Any, make: Any, said: str
) -> None:
    make(home)
    files.leave("out/x", b"x")
    with pytest.raises(FileError, match=said):
        client.download("01J", home, replace=True)
    assert not list(home.rglob(".joblane-*"))


def test_a_file_that_cannot_be_written_does_not_lose_the_others(
    files: FakeFiles, home: Path, client: Any
) -> None:
    (home / "out").write_text("a file")
    (home / "b" / "below").mkdir(parents=True)
    for path in ("a", "b", "out/x", "out/y", "z"):
        files.leave(path, b"content")
    with pytest.raises(DownloadError) as error:
        client.download("01J", home, replace=True)
    found = error.value.outputs
    assert ["a", "z"] == [file.path for file in found.files]
    assert ["b", "out/x", "out/y"] == [path for path, _ in found.failed]
    assert re.fullmatch(
        r"cannot write .*/b: Is a directory; 2 more could not be; 2 files were written",
        str(error.value),
    )
    assert b"content" == (home / "z").read_bytes()
    assert not list(home.rglob(".joblane-*"))


def test_a_full_disk_ends_a_download(
    files: FakeFiles, home: Path, client: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each further file would be fetched for nothing."""

    def full(_file: int, _piece: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    for number in range(100):
        files.leave(f"{number:03}", b"content")
    with monkeypatch.context() as patch:
        patch.setattr("joblane.client.files.destination.os.write", full)
        with pytest.raises(FileError, match=r"cannot write .*: No space left on device$"):
            client.download("01J", home)
    assert [] == list(home.iterdir())


def test_a_directory_that_cannot_be_made_is_named(files: FakeFiles, home: Path, client: Any):
    (home / "file").write_text("")
    files.leave("a", b"")
    for to in (home / "file", home / "file" / "below"):
        with pytest.raises(FileError, match=r"cannot write to .*file"):
            client.download("01J", to)


@pytest.mark.parametrize(
    "arrives", [b"another", b"shorter"[:3], b"longer than what was left", b"", b"x" * 3_000_000]
)
def test_other_content_than_the_list_says_replaces_nothing(
    files: FakeFiles, home: Path, client: Any, arrives: bytes
) -> None:
    (home / "a").write_text("old")
    files.leave("a", b"content")
    files.content["a"] = arrives
    with pytest.raises(AnswerError, match="a is not what the job has"):
        client.download("01J", home, replace=True)
    assert {"a": (0o644, b"old")} == tree(home)


@pytest.mark.parametrize("fault", [CUT, (500, {}, b"<Code>InternalError</Code>"), EXPIRED])
def test_a_transfer_is_repeated(files: FakeFiles, home: Path, client: Any, fault: Any) -> None:
    files.leave("a", b"content")
    files.faults.extend([fault, fault])
    client.download("01J", home)
    assert {"a": (0o644, b"content")} == tree(home)


@pytest.mark.parametrize(
    ("fault", "kind", "said"),
    [
        (CUT, UnreachableError, "cannot download a: "),
        ((503, {}, b"busy"), UnreachableError, "cannot download a: 503 busy"),
        (EXPIRED, AnswerError, "cannot download a: 403 .*expired"),
        ((404, {}, b"gone"), AnswerError, "cannot download a: 404 gone"),
    ],
)
def test_a_transfer_is_given_up(
    files: FakeFiles, home: Path, client: Any, fault: Any, kind: type[Exception], said: str
) -> None:
    (home / "a").write_text("old")
    files.leave("a", b"content")
    files.faults.extend([fault] * 20)
    with pytest.raises(kind, match=said):
        client.download("01J", home, replace=True)
    assert {"a": (0o644, b"old")} == tree(home)


def test_what_is_there_stays(files: FakeFiles, home: Path, client: Any) -> None:
    """But for what the job got from here, as long as it is unchanged, and what is the same."""
    before = {"got": b"got", "changed": b"mine", "same": b"new", "other": b"other", "fifo": None}
    for name, content in before.items():
        files.leave(name, b"new", "0600")
        os.mkfifo(home / name) if content is None else (home / name).write_bytes(content)
    got = [{"path": name, "sha256": sha256(b"got").hexdigest()} for name in ("got", "changed")]
    found = client.download("01J", home, submitted={"inputs": got, "outputs": ["*"]})
    assert ["got", "same"] == [file.path for file in found.files]
    assert ["changed", "fifo", "other"] == [path for path, _ in found.kept]
    new, old = (0o600, b"new"), {name: (0o644, before[name]) for name in ("changed", "other")}
    assert {"got": new, "same": new, **old} == tree(home)


def test_what_comes_while_a_file_is_written_stays(
    files: FakeFiles, home: Path, client: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    digest = Destination.digest

    def look_and_write(to: Destination, path: str) -> str | None:
        found = digest(to, path)
        (home / path).write_text("mine")
        return found

    monkeypatch.setattr(Destination, "digest", look_and_write)
    files.leave("a", b"new")
    assert [("a", "it is here already")] == client.download("01J", home).kept
    assert {"a": (0o644, b"mine")} == tree(home)


@pytest.mark.parametrize(
    ("paths", "outputs", "written"),
    [
        ([], ["**"], ["a"]),
        ([], [], ["a"]),
        ([], ["**", ".env", "x/.cache/**"], [".env", "a", "x/.cache/c"]),
        (["**"], [], ["a"]),
        (["x/.cache", ".env", ".git/hooks/pre-commit"], [], [".env", "x/.cache/c"]),
        ([], [".git/**", "sub/.GIT/config", ".*"], []),
    ],
)
def test_names_that_begin_with_a_dot_are_written_if_they_were_given(
    files: FakeFiles,
    home: Path,
    client: Any,
    paths: list[str],
    outputs: list[str],
    written: list[str],
) -> None:
    """A job's `**` would put a hook into the repository in which it was submitted."""
    every = (".env", ".git/hooks/pre-commit", "sub/.GIT/config", "x/.cache/c", "x/.d/.cache/c")
    for path in (*every, *(["a"] if "a" in written else [])):
        files.leave(path, b"x", "0755")
    found = client.download("01J", home, paths, replace=True, submitted={"outputs": outputs})
    assert written == sorted(tree(home))
    assert ".git/hooks/pre-commit" not in dict(found.kept) or (
        "nothing is written below .git" == dict(found.kept)[".git/hooks/pre-commit"]
    )


def test_an_answer_that_is_no_redirection_is_refused(
    api: FakeApi, files: FakeFiles, home: Path, client: Any
) -> None:
    files.leave("a", b"content")
    files.leave("b", b"")
    api.answers["/v1/jobs/01J/outputs/a"] = (200, {}, b"content")
    with pytest.raises(AnswerError, match="in place of a redirection"):
        client.download("01J", home, ["a"])
    assert {} == tree(home)


@pytest.mark.usefixtures("files")
def test_a_job_that_left_nothing(api: FakeApi, home: Path, client: Any) -> None:
    assert [] == client.download("01J", home).files
    api.more = lambda _request: None
    with pytest.raises(NotFoundError):
        client.download("01X", home)


def test_files_of_many_pages_come_home(files: FakeFiles, home: Path, client: Any) -> None:
    count = budget(250, 1000)
    for number in range(count):
        files.leave(f"{number % 10}/{number}", str(number).encode())
    client.download("01J", home)
    found = tree(home)
    assert count == len(found)
    assert all(content == Path(path).name.encode() for path, (_, content) in found.items())
    assert sha256(b"7").hexdigest() == files.outputs[7]["sha256"]
