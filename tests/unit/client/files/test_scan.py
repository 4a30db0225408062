"""Which local files become inputs of a job, and which are refused."""

import os
import re
import socket
import threading
from pathlib import Path

import pytest

from joblane.client.errors import FileError
from joblane.client.files import models, reading, scan
from joblane.client.files.scan import Named
from joblane.files.fields import MAX_FILE_BYTES
from joblane.files.models import MAX_INPUTS
from joblane.job.fields import MAX_STDIN_BYTES


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A tree, and a file outside of it; the tests run in the folder `work`."""
    work = tmp_path / "work"
    (work / "src" / "deep").mkdir(parents=True)
    (work / "data.csv").write_text("1,2\n")
    (work / "src" / "my.sh").write_text("echo\n")
    (work / "src" / "my.sh").chmod(0o4755)
    (work / "src" / "deep" / ".hidden").write_text("")
    (work / "src" / "deep" / ".hidden").chmod(0o600)
    (tmp_path / "outside").write_text("secret")
    monkeypatch.chdir(work)


def places(*named: Named) -> dict[str, str]:
    """The place and mode of each file that is found."""
    return {file.remote: file.mode for file in scan.scan(named).files}


@pytest.mark.parametrize(
    ("named", "expected"),
    [
        ("data.csv", ["data.csv"]),
        ("./data.csv", ["data.csv"]),
        ("src", ["src/deep/.hidden", "src/my.sh"]),
        ("src/", ["src/deep/.hidden", "src/my.sh"]),
        ("src//deep/./.hidden", ["src/deep/.hidden"]),
        (".", ["data.csv", "src/deep/.hidden", "src/my.sh"]),
        ("../work/src", ["src/deep/.hidden", "src/my.sh"]),
        ("../outside", ["outside"]),
        (Path("data.csv"), ["data.csv"]),
        (("data.csv", "in/1.csv"), ["in/1.csv"]),
        (("data.csv", "./in/1.csv"), ["in/1.csv"]),
        (("data.csv", "in/"), ["in/data.csv"]),
        (("data.csv", "."), ["data.csv"]),
        (("src", "lib"), ["lib/deep/.hidden", "lib/my.sh"]),
        (("src", "lib/"), ["lib/deep/.hidden", "lib/my.sh"]),
        (("src", "."), ["deep/.hidden", "my.sh"]),
        (
            ("..", "up"),
            [
                "up/outside",
                *(f"up/work/{n}" for n in ("data.csv", "src/deep/.hidden", "src/my.sh")),
            ],
        ),
    ],
)
def test_where_a_path_is_placed(named: Named, expected: list[str]) -> None:
    assert expected == sorted(places(named))


def test_an_absolute_path_becomes_its_last_component(tmp_path: Path) -> None:
    assert ["outside"] == list(places(str(tmp_path / "outside")))
    assert ["src/deep/.hidden", "src/my.sh"] == sorted(places(str(tmp_path / "work" / "src/")))


def test_modes_are_permission_bits() -> None:
    """Setuid is not one of them."""
    assert {"src/deep/.hidden": "0600", "src/my.sh": "0755"} == places("src")


def test_links_to_files_in_the_directory_are_read_as_their_content(tmp_path: Path) -> None:
    Path("src/again").symlink_to("deep/.hidden")
    Path("src/absolute").symlink_to(tmp_path / "work" / "src" / "my.sh")
    Path("named").symlink_to("src")
    found = scan.scan(["named"]).files
    assert ["named/absolute", "named/again", "named/deep/.hidden", "named/my.sh"] == sorted(
        file.remote for file in found
    )
    assert {"0755", "0600"} == {file.mode for file in found}
    Path("one").symlink_to("../outside")  # named by the person, so it is followed
    assert ["one"] == list(places("one"))


@pytest.mark.parametrize(
    ("target", "why"),
    [
        ("../../outside", r"a link that leads out of the directory, to /.*/outside$"),
        ("/etc/passwd", "a link that leads out of the directory, to /etc/passwd"),
        ("/proc/self/mem", "a link that leads out of the directory"),
        ("deep", "a link to what is not a regular file"),
        ("nowhere", "a link that leads nowhere: No such file"),
        ("link", "a link that leads nowhere: Too many levels of symbolic links"),
    ],
)
def test_other_links_are_left_out_and_named(target: str, why: str) -> None:
    Path("src/link").symlink_to(target)
    found = scan.scan(["src"])
    assert ["src/deep/.hidden", "src/my.sh"] == [file.remote for file in found.files]
    ((name, reason),) = found.left_out
    assert "src/link" == name
    assert re.match(f"it is {why}", reason)


def test_what_is_no_file_is_left_out_unless_it_was_named() -> None:
    os.mkfifo("src/pipe")
    with socket.socket(socket.AF_UNIX) as made:
        made.bind("src/socket")
    found = scan.scan(["src"])
    assert ["src/deep/.hidden", "src/my.sh"] == [file.remote for file in found.files]
    why = "it is not a regular file or a directory"
    assert [("src/pipe", why), ("src/socket", why)] == found.left_out
    Path("nowhere").symlink_to("missing")
    for name in ("src/pipe", "src/socket", "/dev/null"):
        with pytest.raises(FileError, match=rf"^{name} is not a regular file"):
            scan.scan([name])
    with pytest.raises(FileError, match=r"^cannot read nowhere: No such file"):
        scan.scan(["nowhere"])


@pytest.mark.parametrize(
    ("exclude", "expected"),
    [
        (["deep"], ["src/my.sh"]),
        (["deep/"], ["src/my.sh"]),
        (["*.sh", "nothing"], ["src/deep/.hidden"]),
        (["src/*"], []),
        (["./src/deep"], ["src/my.sh"]),
        (["src/**"], []),
        (["**/.hidden"], ["src/my.sh"]),
        (["src"], ["src/deep/.hidden", "src/my.sh"]),  # it was named
    ],
)
def test_exclude_leaves_out_below_directories(exclude: list[str], expected: list[str]) -> None:
    """Names that a job cannot have, and what cannot be read, too: it is not looked at."""
    assert expected == [file.remote for file in scan.scan(["src"], exclude).files]
    assert ["data.csv"] == [file.remote for file in scan.scan(["data.csv"], ["data.csv"]).files]
    Path("src/a\nb").write_text("")
    assert expected == [file.remote for file in scan.scan(["src"], [*exclude, "a?b"]).files]


def test_an_exclusion_that_is_no_glob_is_named() -> None:
    for text in ("a[", "", "a/../b"):
        with pytest.raises(FileError, match=re.escape(f"{text} excludes nothing: it must")):
            scan.scan(["src"], [text])


def test_a_file_whose_size_tells_nothing_is_read(tmp_path: Path) -> None:
    """/proc gives its files the size 0, and /sys 4096."""
    version, online = Path("/proc/version"), Path("/sys/devices/system/cpu/online")
    for path in (version, online) if online.exists() else (version,):
        (file,) = scan.scan([path]).files
        assert path.name == file.remote
        assert path.read_bytes() == b"".join(file.chunks(threading.Event()))
        assert path.stat().st_size != file.size == len(path.read_bytes())
    (tmp_path / "empty").write_text("")
    (file,) = scan.scan([tmp_path / "empty"]).files
    assert (0, None, []) == (file.size, file.copy, list(file.chunks(threading.Event())))


def test_a_file_without_a_size_that_is_too_long_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "MAX_COPY_BYTES", 10)
    with pytest.raises(FileError, match=r"^/proc/version has no size and more than 10 bytes"):
        scan.scan(["/proc/version"])


@pytest.mark.parametrize("name", [b"a\nb", b"a\x1b[2Jb", b"\xff"])
def test_names_that_a_job_cannot_have_are_named_escaped(name: bytes) -> None:
    Path("src", os.fsdecode(name)).write_text("")
    with pytest.raises(
        FileError, match="cannot be a file of a job: must be UTF-8 without"
    ) as found:
        scan.scan(["src"])
    assert str(found.value).isprintable()


@pytest.mark.parametrize(
    ("named", "said"),
    [
        (["nowhere"], "cannot read nowhere: No such file"),
        (["data.csv/"], "cannot read data.csv/: Not a directory"),
        ([""], "is empty"),
        (["a\0b"], "NUL"),
        ([".."], r"\.\. needs a path in the job: \.\.:REMOTE"),
        (["src/.."], "needs a path in the job"),
        (["/"], "/ needs a path in the job"),
        ([("data.csv", "../x")], r"\.\./x cannot be a path of a job"),
        ([("data.csv", "/x")], "cannot be a path of a job"),
        ([("src", "/")], "cannot be a path of a job"),
        ([("data.csv", "a//b")], "cannot be a path of a job"),
        ([("data.csv", "x" * 300)], "cannot be a path of a job"),
        (["data.csv", ("../outside", "data.csv")], "would both be data.csv of the job"),
        (["data.csv", ("../outside", "data.csv/x")], "where data.csv is the file data.csv"),
    ],
)
def test_refusals_name_the_path(named: list[Named], said: str) -> None:
    with pytest.raises(FileError, match=said):
        scan.scan(named)


def test_a_file_that_is_named_twice_is_one() -> None:
    assert ["data.csv"] == list(places("data.csv", "./data.csv"))


def test_empty_directories_are_left_out_and_named() -> None:
    Path("src/none/below").mkdir(parents=True)
    Path("void").mkdir()
    found = scan.scan(["src", "void"])
    assert ["src/none/below", "void"] == found.empty
    assert 2 == len(found.files)


def test_more_files_than_a_job_has_are_refused() -> None:
    for number in range(models.MAX_INPUTS + 1):
        Path("src", f"{number}").write_text("")
    with pytest.raises(FileError, match="more than 1,000 files"):
        scan.scan(["src"])


def test_a_file_of_more_than_5_gib_is_refused() -> None:
    with Path("src/large").open("wb") as file:
        file.truncate(models.MAX_FILE_BYTES)
    assert "src/large" in places("src")
    with Path("src/large").open("ab") as file:
        file.write(b"x")
    with pytest.raises(FileError, match=r"src/large has 5,368,709,121 bytes"):
        scan.scan(["src"])


def test_an_unreadable_directory_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Root reads everything, so the system says it here."""

    def refuse(*_: object, **__: object) -> int:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "open", refuse)
    with pytest.raises(FileError, match="cannot read src: Permission denied"):
        scan.scan(["src"])


def test_a_directory_that_becomes_a_link_is_not_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is swapped between the look at it and its opening."""
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "key").write_text("secret")
    look = os.stat

    def swap(path: str, **options: object) -> os.stat_result:
        found = look(path, **options)  # type: ignore[arg-type]
        if path == "deep":
            Path("src/deep").rename(tmp_path / "gone")
            Path("src/deep").symlink_to(tmp_path / "elsewhere")
        return found

    monkeypatch.setattr(os, "stat", swap)
    with pytest.raises(FileError, match="cannot read src"):
        scan.scan(["src"])


def test_a_tree_that_is_too_deep_is_refused() -> None:
    """Before it takes as many descriptors and frames of the stack."""
    deep = Path("src", *["d"] * 150)
    deep.mkdir(parents=True)
    with pytest.raises(FileError, match="more than 100 directories"):
        scan.scan(["src"])


def test_the_figures_are_those_of_the_api() -> None:
    assert (MAX_INPUTS, MAX_FILE_BYTES, MAX_STDIN_BYTES) == (
        models.MAX_INPUTS,
        models.MAX_FILE_BYTES,
        models.MAX_STDIN_BYTES,
    )
