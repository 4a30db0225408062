"""Finding output files: what is collected, what is skipped and why, and no way out."""

import errno
import os
import socket
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from ec2_agent.files import collect as collecting
from ec2_agent.files.beneath import NotRegular, open_beneath, open_directory, open_regular
from ec2_agent.files.collect import Bounds, CannotCollect, CollectedFiles, FoundFile, collect
from ec2_agent.files.transfers import Stopped
from ec2_agent.host.capacity import descriptors_left

BOUNDS = Bounds(files=100, megabytes=1)


@pytest.fixture(name="work")
def _work(tmp_path: Path) -> Path:
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret" / "key").write_text("secret")
    (tmp_path / "work").mkdir()
    return tmp_path / "work"


@pytest.fixture(name="fd")
def _fd(work: Path) -> Iterator[int]:
    fd = os.open(work, os.O_PATH | os.O_DIRECTORY)
    yield fd
    os.close(fd)


def look(fd: int, *globs: str, bounds: Bounds = BOUNDS) -> CollectedFiles:
    return collect(fd, globs, bounds, lambda: True)


def paths(found: CollectedFiles) -> list[str]:
    return [file.path for file in found.files]


def why(found: CollectedFiles) -> dict[str, str]:
    return {entry.path: entry.why for entry in found.skipped}


def write(path: Path, data: bytes = b"x", mode: int = 0o644) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    path.chmod(mode)


def test_a_tree_is_found_with_sizes_and_modes_and_what_no_glob_matches_is_left(work: Path, fd: int):
    write(work / "out" / "b" / "two", b"22", 0o755)
    write(work / "out" / "one", b"1", 0o600)
    write(work / "out" / ".hidden", b"", 0o444)
    write(work / "notes.txt")
    (work / "out" / "empty").mkdir()
    found = look(fd, "out", "*.csv", "missing/**")
    assert [
        FoundFile("out/.hidden", 0, "0444"),
        FoundFile("out/b/two", 2, "0755"),
        FoundFile("out/one", 1, "0600"),
    ] == found.files
    assert ("*.csv", "missing/**") == found.unmatched
    assert 0 == found.skipped_count


def test_setuid_setgid_and_sticky_bits_are_dropped(work: Path, fd: int):
    write(work / "out", b"x", 0o7755)
    assert [FoundFile("out", 1, "0755")] == look(fd, "out").files


def test_links_are_skipped_and_never_followed(work: Path, fd: int):
    (work / "out").mkdir()
    for name, target in (
        ("absolute", "/etc/passwd"),
        ("up", "../../secret/key"),
        ("dir", "../../secret"),
        ("dangling", "nothing"),
        ("proc", "/proc/self/root/etc/passwd"),
    ):
        (work / "out" / name).symlink_to(target)
    (work / "data").symlink_to(work.parent / "secret")
    found = look(fd, "out/**", "data/*", "out/dir/key")
    assert [] == found.files
    assert {"absolute", "up", "dir", "dangling", "proc"} == {
        path.removeprefix("out/") for path in why(found) if path.startswith("out/")
    }
    assert {"a link, which is not followed"} == set(why(found).values())
    assert "data" in why(found)
    assert ("out/**", "data/*", "out/dir/key") == found.unmatched


def test_what_is_no_file_is_skipped_with_its_kind(work: Path, fd: int):
    os.mkfifo(work / "fifo")
    with socket.socket(socket.AF_UNIX) as sock:
        sock.bind(str(work / "sock"))
    expected = {"fifo": "a FIFO", "sock": "a socket"}
    if os.geteuid() == 0:
        os.mknod(work / "null", 0o666 | stat.S_IFCHR, os.makedev(1, 3))
        expected["null"] = "a device"
    assert expected == why(look(fd, "*"))


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        (b"new\nline", "new\ufffdline"),
        (b"esc\x1b[2J", "esc\ufffd[2J"),
        (b"bad\xff", "bad\ufffd"),
        ("no\uffff".encode(), "no\ufffd"),
    ],
)
def test_names_that_would_lie_to_a_reader_are_skipped(work: Path, fd: int, name: bytes, shown: str):
    (work / "out").mkdir()
    Path(os.fsdecode(os.fsencode(work / "out") + b"/" + name)).write_bytes(b"x")
    directory = Path(os.fsdecode(os.fsencode(work / "out") + b"/d-" + name))
    directory.mkdir()
    (directory / "inner").write_bytes(b"x")
    found = look(fd, "out/**")
    assert [] == found.files
    assert {f"out/{shown}", f"out/d-{shown}"} == set(why(found))
    assert all("UTF-8 without control characters" in text for text in why(found).values())


def test_deep_trees_and_long_paths_are_skipped_with_the_figure(work: Path, fd: int):
    deep = "/".join("d" * 99)
    write(work / deep / "file")
    write(work / deep / "d" / "deeper")
    long = Path(*["l" * 250] * 3)
    write(work / long / ("m" * 146))
    write(work / long / ("m" * 147))
    write(work / long / ("m" * 148))
    found = look(fd, "**")
    assert [f"{deep}/file", f"{long}/{'m' * 146}", f"{long}/{'m' * 147}"] == paths(found)
    assert {
        "its files are below more than 99 directories",
        "its path must be at most 900 bytes",
    } == set(why(found).values())


def test_every_directory_is_closed_again(work: Path, fd: int):
    for n in range(50):
        write(work / f"{n}" / "file")
    assert 50 == len(look(fd, "**").files)
    before = descriptors_left()
    with pytest.raises(CannotCollect):
        look(fd, "**", bounds=Bounds(10, 1, entries=20))
    assert before == descriptors_left()


def test_more_files_than_allowed_are_refused_with_figure_and_limit(work: Path, fd: int):
    for n in range(11):
        write(work / "out" / f"{n}")
    with pytest.raises(CannotCollect, match="11 output files; output_files_per_job allows 10"):
        look(fd, "out", bounds=Bounds(10, 1))
    assert 11 == len(look(fd, "out", bounds=Bounds(11, 1)).files)


def test_a_sparse_file_counts_in_full(work: Path, fd: int):
    write(work / "sparse")
    os.truncate(work / "sparse", (3 << 20) + 1)
    with pytest.raises(CannotCollect, match=r"4 MB of output files; .*mb_per_job allows 3"):
        look(fd, "sparse", bounds=Bounds(10, 3))
    assert [(3 << 20) + 1] == [f.size for f in look(fd, "sparse", bounds=Bounds(10, 4)).files]
    os.truncate(work / "sparse", 6 << 40)
    with pytest.raises(CannotCollect, match=r"an output file has 6,291,456 MB; .* 5,120: sparse"):
        look(fd, "sparse", bounds=Bounds(10, 1 << 40))


def test_entries_are_bounded_and_directories_that_no_glob_reaches_are_not_looked_at(
    work: Path, fd: int
):
    for n in range(30):
        write(work / "cache" / f"{n}")
    write(work / "out" / "one")
    with pytest.raises(CannotCollect, match="more than 20 directory entries"):
        look(fd, "**", bounds=Bounds(10, 1, entries=20))
    assert ["out/one"] == paths(look(fd, "out/*", bounds=Bounds(10, 1, entries=20)))


def test_the_work_of_comparing_is_bounded_whatever_the_globs_are(work: Path, fd: int):
    """At a depth of 60, twenty such globs take 0.7 ms for each entry."""
    for n in range(30):
        write(work / "a" / "b" / f"{n}")
    hard = [f"{'**/*a*b/' * 8}{n}" for n in range(20)]
    bounds = Bounds(10, 1, steps=10_000)
    walked = collect(fd, hard[:1], Bounds(10, 1, steps=2_000), lambda: True)
    assert [] == walked.files
    with pytest.raises(CannotCollect, match=r"entries to compare with 20 globs; name fewer"):
        collect(fd, hard, bounds, lambda: True)
    assert 30 == len(look(fd, "**", bounds=Bounds(100, 1, steps=10_000)).files)


def test_a_directory_that_is_swapped_for_a_link_while_it_is_looked_at_leads_nowhere(
    work: Path, fd: int, monkeypatch: pytest.MonkeyPatch
):
    write(work / "out" / "key", b"mine")
    real = open_directory

    def swapping(directory: int, path: str) -> int:
        if path == "out":
            (work / "out").rename(work / "aside")
            (work / "out").symlink_to(work.parent / "secret")
        return real(directory, path)

    monkeypatch.setattr(collecting, "open_directory", swapping)
    found = look(fd, "out/**")
    assert [] == found.files
    assert ["out"] == list(why(found))
    with pytest.raises(OSError, match="Too many levels"):
        open_regular(fd, "out/key")  # as the upload would, later


@pytest.mark.parametrize(
    "path", ["/etc/passwd", "../secret/key", "out/../../secret/key", "link/key"]
)
def test_no_path_leads_out(work: Path, fd: int, path: str):
    (work / "out").mkdir()
    (work / "link").symlink_to(work.parent / "secret")
    with pytest.raises(OSError, match=r"cross-device|Too many levels"):
        os.close(open_regular(fd, path))


def test_what_was_swapped_for_a_fifo_or_a_device_is_not_opened(work: Path, fd: int):
    os.mkfifo(work / "fifo")
    with pytest.raises(NotRegular):
        open_regular(fd, "fifo")  # an open would wait for a writer
    (work / "link").symlink_to("/etc/passwd")
    for path in (".", "link"):
        with pytest.raises(NotRegular):
            open_regular(fd, path)
    dev = os.open("/dev", os.O_PATH)
    with pytest.raises(NotRegular):
        open_regular(dev, "null")
    os.close(dev)


def test_no_mount_is_crossed():
    root = os.open("/", os.O_PATH)
    with pytest.raises(OSError, match="cross-device"):
        open_beneath(root, "proc/self/status", os.O_PATH)
    os.close(root)


def test_a_stopped_attempt_stops_looking(work: Path, fd: int, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(collecting, "_LOOK_EVERY", 5)
    for n in range(10):
        write(work / f"{n}")
    with pytest.raises(Stopped):
        collect(fd, ["*"], BOUNDS, lambda: False)


def test_an_unreadable_directory_is_skipped_with_the_error(
    work: Path, fd: int, monkeypatch: pytest.MonkeyPatch
):
    (work / "out").mkdir()
    real = open_directory

    def refusing(directory: int, path: str) -> int:
        if path == "out":
            raise PermissionError(errno.EACCES, "Permission denied")
        return real(directory, path)

    monkeypatch.setattr(collecting, "open_directory", refusing)
    assert {"out": "it could not be read: Permission denied"} == why(look(fd, "out/**"))
    error = OSError(errno.EMFILE, "Too many open files")
    monkeypatch.setattr(collecting, "open_directory", lambda *_: (_ for _ in ()).throw(error))
    with pytest.raises(OSError, match="Too many open files"):  # to be tried again
        look(fd, "out/**")
