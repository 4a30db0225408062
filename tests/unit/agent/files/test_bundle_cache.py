"""The agent's cache of bundles: one download, nothing unsafe unpacked, nothing in use removed."""

import contextlib
import hashlib
import io
import os
import stat
import struct
import threading
import time
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ec2_agent.bundles import unpack as unpacking
from ec2_agent.bundles.cache import BundleCache, BundleUnusable
from ec2_agent.bundles.unpack import EACH_BYTES, BadBundle, Contents, unpack
from ec2_agent.sandbox.disk.space import DiskSpace
from ec2_agent.sandbox.model import DiskShort
from joblane.aws.files.download import Download, ObjectGone
from joblane.aws.typed.bundle_downloads import BundleDownloads
from joblane.client.bundles.archive import write_archive
from joblane.job.disk import to_mib
from tests.support.aws import DESCRIPTOR, Cloud
from tests.support.threads import run_all

Entries = list[tuple[zipfile.ZipInfo, bytes]]


def entry(name: str, data: bytes = b"x", mode: int = stat.S_IFREG | 0o644) -> Any:
    info = zipfile.ZipInfo(name)
    info.external_attr, info.create_system = mode << 16, 3
    info.compress_type = zipfile.ZIP_DEFLATED
    return info, data


def zip_entries(*entries: Any) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for info, data in entries:
            archive.writestr(info, data)
    return file.getvalue()


def digest_of(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


class Bucket:
    """Bundles to download, and how often each was."""

    def __init__(self) -> None:
        self.bundles: dict[str, bytes] = {}
        self.downloads: list[str] = []
        self.before: Callable[[], None] = lambda: None

    def add(self, *entries: Any) -> str:
        """Put a bundle there; returns its digest."""
        data = zip_entries(*entries)
        self.bundles[digest_of(data)] = data
        return digest_of(data)

    def download(self, tenant: str, sha256: str) -> Download:
        """Read one, as from S3."""
        assert "acme" == tenant
        self.downloads.append(sha256)
        self.before()
        if sha256 not in self.bundles:
            raise ObjectGone(f"s3://bucket/bundles/acme/{sha256}")
        data = self.bundles[sha256]
        return Download(len(data), iter((data[:10], data[10:])))


@pytest.fixture(name="bucket")
def _bucket() -> Bucket:
    return Bucket()


def files(directory: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(directory)): path.read_bytes()
        for path in directory.rglob("*")
        if path.is_file()
    }


def open_cache(tmp_path: Path, bucket: Bucket, **bounds: int) -> BundleCache:
    """The cache of an agent that starts."""
    return BundleCache(tmp_path / "bundles", bucket.download, DiskSpace(tmp_path), **bounds)


def names(cache: BundleCache) -> set[str]:
    return {path.name for path in cache.directory.iterdir()}


# --- unpacking


def test_files_and_their_modes_are_those_of_the_zip_file(tmp_path: Path):
    os.umask(0o077)
    data = zip_entries(
        entry("__main__.py", b"main"),
        entry("package/", b"", stat.S_IFDIR | 0o700),
        entry("package/deep/er/code.py", b"code", stat.S_IFREG | 0o600),
        entry("package/tool", b"tool", stat.S_IFREG | 0o6711),
    )
    assert Contents(12, 6) == unpack(io.BytesIO(data), tmp_path)
    os.umask(0o022)
    assert {
        "__main__.py": b"main",
        "package/deep/er/code.py": b"code",
        "package/tool": b"tool",
    } == files(tmp_path)
    modes = {str(p.relative_to(tmp_path)): p.stat().st_mode & 0o7777 for p in tmp_path.rglob("*")}
    assert {"package": 0o755, "package/deep": 0o755, "package/deep/er": 0o755} == {
        name: mode for name, mode in modes.items() if (tmp_path / name).is_dir()
    }
    assert (0o644, 0o755) == (modes["package/deep/er/code.py"], modes["package/tool"])


@pytest.mark.parametrize(
    ("entries", "why"),
    [
        ([entry("../out")], "not a path"),
        ([entry("a/../../out")], "not a path"),
        ([entry("/etc/out")], "not a path"),
        ([entry("a\\..\\out")], "not a path"),
        ([entry("link", b"/etc/passwd", stat.S_IFLNK | 0o777)], "neither a file"),
        ([entry("link", b"..", stat.S_IFLNK | 0o777), entry("link/out")], "neither a file"),
        ([entry("pipe", b"", stat.S_IFIFO | 0o644)], "neither a file"),
        ([entry("device", b"", stat.S_IFCHR | 0o644)], "neither a file"),
        ([entry("a"), entry("a/b")], "a file and a directory"),
        ([entry("a/b"), entry("a")], "twice"),
        ([entry("x"), entry("./x")], "twice"),
    ],
)
def test_what_leaves_the_directory_or_is_no_file_is_refused(
    tmp_path: Path, entries: Entries, why: str
):
    target = tmp_path / "target"
    target.mkdir()
    with pytest.raises(BadBundle, match=why):
        unpack(io.BytesIO(zip_entries(*entries)), target)
    assert ["target"] == [path.name for path in tmp_path.iterdir()]


def test_a_name_that_comes_twice_is_refused(tmp_path: Path):
    with pytest.warns(UserWarning, match="Duplicate name"):
        data = zip_entries(entry("x"), entry("x"))
    with pytest.raises(BadBundle, match="twice"):
        unpack(io.BytesIO(data), tmp_path)


def test_files_beyond_the_bound_are_refused_whatever_the_zip_file_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(unpacking, "MAX_UNPACKED_BYTES", 1_000_000)
    bomb = zip_entries(entry("bomb", b"\0" * 5_000_000))
    with pytest.raises(BadBundle, match="files have 5000000 bytes"):
        unpack(io.BytesIO(bomb), tmp_path)
    liar = bomb.replace(struct.pack("<I", 5_000_000), struct.pack("<I", 10))
    with pytest.raises(BadBundle):
        unpack(io.BytesIO(liar), tmp_path)
    assert sum(path.stat().st_size for path in tmp_path.rglob("*")) <= 1_000_000
    monkeypatch.setattr(unpacking, "MAX_FILES", 2)
    with pytest.raises(BadBundle, match="3 files"):
        unpack(io.BytesIO(zip_entries(*(entry(str(n)) for n in range(3)))), tmp_path)


@pytest.mark.parametrize("chunk", [7, 64, 1 << 20])
def test_files_are_counted_before_the_library_takes_memory_for_each(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, chunk: int
):
    six = zip_entries(*(entry(str(n)) for n in range(6)))
    monkeypatch.setattr(unpacking, "MAX_HEADERS", 5)
    monkeypatch.setattr(unpacking, "_CHUNK", chunk)
    unpack(io.BytesIO(zip_entries(*(entry(str(n), bytes(99)) for n in range(5)))), tmp_path)
    monkeypatch.setattr(zipfile, "ZipFile", None)
    with pytest.raises(BadBundle, match="more than 100000 files"):
        unpack(io.BytesIO(six), tmp_path)


@pytest.mark.parametrize("at_once", [1, 3])
def test_a_damaged_zip_file_is_refused_or_unpacked_and_nothing_else(tmp_path: Path, at_once: int):
    """Each byte in turn, with some values: zipfile raises errors of six libraries for them."""
    whole = zip_entries(entry("a/b.py", bytes(range(200)) * 3), entry("c", b"d"))
    for first in range(len(whole)):
        for flip in (0x01, 0x80, 0xFF):
            damaged = bytearray(whole)
            for byte in range(first, min(first + at_once, len(whole))):
                damaged[byte] ^= flip
            target = tmp_path / "in" / f"{first}-{flip}"
            target.mkdir(parents=True)
            with contextlib.suppress(BadBundle):
                unpack(io.BytesIO(bytes(damaged)), target)
            assert not any(path.is_symlink() for path in target.rglob("*"))
    assert ["in"] == [path.name for path in tmp_path.iterdir()]
    assert 3 * len(whole) == len(list((tmp_path / "in").iterdir()))


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_what_is_compressed_in_another_way_is_refused(tmp_path: Path, method: int):
    """An LZMA stream may ask for 4 GB of memory."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", method) as archive:
        archive.writestr("a", b"x" * 1000)
    with pytest.raises(BadBundle, match="'a' is not compressed by deflate"):
        unpack(file, tmp_path)


@pytest.mark.parametrize("name", ["n" * 300, "/".join(["d" * 200] * 30), "a/" * 3000 + "b"])
def test_a_name_that_no_file_can_have_is_refused(tmp_path: Path, name: str):
    data = zip_entries(entry("x" * len(name.encode("utf-8", "replace"))))
    data = data.replace(b"x" * len(name), name.encode("utf-8", "replace"))
    with pytest.raises(BadBundle):
        unpack(io.BytesIO(data), tmp_path)


def test_directories_count_as_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A path of 4 kB has 2,000 of them."""
    monkeypatch.setattr(unpacking, "MAX_FILES", 5)
    assert Contents(1, 4) == unpack(io.BytesIO(zip_entries(entry("a/b/c/d"))), tmp_path)
    listed = entry("e/", b"", stat.S_IFDIR), entry("e/b/c"), entry("e/b/d"), entry("f")
    assert Contents(3, 5) == unpack(io.BytesIO(zip_entries(*listed)), tmp_path)
    with pytest.raises(BadBundle, match="more than 5 files and directories"):
        unpack(io.BytesIO(zip_entries(entry("b/b/c/d"), entry("c/c"))), tmp_path)


# --- the cache


def test_a_bundle_is_downloaded_once_however_many_ask(tmp_path: Path, bucket: Bucket):
    digest = bucket.add(entry("__main__.py", b"main"))
    gate = threading.Barrier(8)
    bucket.before = lambda: time.sleep(0.1)  # so that the others come meanwhile
    cache, locks = open_cache(tmp_path, bucket), []

    def ask() -> None:
        gate.wait()
        locks.append(cache.use("acme", digest))

    threads = [threading.Thread(target=ask) for _ in range(8)]
    run_all(threads)
    assert [digest] == bucket.downloads
    assert {digest, f"{digest}.use", "boot"} == names(cache)
    assert {"__main__.py": b"main"} == files(cache.directory / digest)
    assert 0o755 == (cache.directory / digest).stat().st_mode & 0o777
    assert 8 == len(set(locks))
    for lock in locks:
        os.close(lock)


def test_the_cache_survives_a_restart(tmp_path: Path, bucket: Bucket):
    digest = bucket.add(entry("__main__.py"))
    os.close(open_cache(tmp_path, bucket).use("acme", digest))
    again = open_cache(tmp_path, bucket)
    os.close(again.use("acme", digest))
    assert [digest] == bucket.downloads


def test_after_a_boot_everything_is_downloaded_again(tmp_path: Path, bucket: Bucket):
    digest = bucket.add(entry("__main__.py"))
    os.close(open_cache(tmp_path, bucket).use("acme", digest))
    (tmp_path / "bundles" / "boot").write_text("an earlier boot")
    (tmp_path / "bundles" / digest / "__main__.py").write_bytes(b"")  # never reached the disk
    again = open_cache(tmp_path, bucket)
    os.close(again.use("acme", digest))
    assert {"__main__.py": b"x"} == files(again.directory / digest)


def test_a_download_that_was_cut_off_leaves_nothing_and_is_made_again(
    tmp_path: Path, bucket: Bucket
):
    digest = bucket.add(entry("__main__.py"))
    cache = open_cache(tmp_path, bucket)

    def fail() -> None:
        raise OSError("cut off")

    bucket.before = fail
    with pytest.raises(OSError, match="cut off"):
        cache.use("acme", digest)
    assert {"boot", f"{digest}.use"} == names(cache)
    bucket.before = lambda: None
    os.close(cache.use("acme", digest))
    assert {"__main__.py": b"x"} == files(cache.directory / digest)


def test_what_a_killed_agent_has_left_is_removed(tmp_path: Path, bucket: Bucket):
    digest = bucket.add(entry("__main__.py"))
    cache = open_cache(tmp_path, bucket)
    (cache.directory / f".new-{digest}" / "package").mkdir(parents=True)
    (cache.directory / f".zip-{digest}").write_bytes(b"half")
    (cache.directory / f".old-{digest}").mkdir()
    cache = open_cache(tmp_path, bucket)
    assert {"boot"} == names(cache)
    os.close(cache.use("acme", digest))


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (None, "is not there; push the type again"),
        (b"PK\x05\x06 another", "another digest"),
        ("not a zip file", "cannot be unpacked: it is not a valid zip file"),
        ("link", "cannot be unpacked: 'link' is neither"),
    ],
)
def test_what_is_not_the_bundle_or_unsafe_is_never_there(
    tmp_path: Path, bucket: Bucket, data: Any, why: str
):
    digest = digest_of(b"any")
    if data == "link":
        digest = bucket.add(entry("link", b"..", stat.S_IFLNK | 0o777))
    elif isinstance(data, str):
        digest = digest_of(data.encode())
        bucket.bundles[digest] = data.encode()
    elif data is not None:
        bucket.bundles[digest] = data
    cache = open_cache(tmp_path, bucket)
    for _ in range(2):
        with pytest.raises(BundleUnusable, match=why):
            cache.use("acme", digest)
        assert {"boot", f"{digest}.use"} == names(cache)


def test_a_download_that_is_too_long_is_stopped(
    tmp_path: Path, bucket: Bucket, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("ec2_agent.bundles.cache.MAX_ZIP_BYTES", 20)
    digest = bucket.add(entry("__main__.py"))
    cache = open_cache(tmp_path, bucket)
    with pytest.raises(BundleUnusable, match="more than 20 bytes"):
        cache.use("acme", digest)


COUNTED = 1000 + EACH_BYTES
"""What a bundle with one file of 1000 bytes counts for."""


def of_a_file(n: int) -> Any:
    return entry("data", bytes([n]) * 1000)


def test_the_least_recently_used_one_that_is_not_in_use_goes(tmp_path: Path, bucket: Bucket):
    digests = [bucket.add(of_a_file(n)) for n in range(4)]
    cache = open_cache(tmp_path, bucket, most_bytes=2 * COUNTED)
    locks = {}
    for number, digest in enumerate(digests[:2]):
        locks[digest] = cache.use("acme", digest)
        os.utime(cache.directory / f"{digest}.use", (number, number))
    held, free, *more = digests
    os.close(locks.pop(free))
    locks[more[0]] = cache.use("acme", more[0])  # the older one is in use
    assert {held, more[0]} == {name for name in names(cache) if len(name) == 64}
    with pytest.raises(DiskShort, match="bundles of running jobs have taken"):
        cache.use("acme", more[1])
    assert {held, more[0]} == {name for name in names(cache) if len(name) == 64}
    os.close(locks.pop(held))
    locks[more[1]] = cache.use("acme", more[1])
    assert {*more} == {name for name in names(cache) if len(name) == 64}
    for lock in locks.values():
        os.close(lock)


def test_bundles_that_are_unpacked_at_the_same_time_are_within_the_bound_together(
    tmp_path: Path, bucket: Bucket
):
    """Each would find room alone."""
    both, gate, refused = [bucket.add(of_a_file(n)) for n in range(2)], threading.Barrier(2), []
    cache = open_cache(tmp_path, bucket, most_bytes=2 * COUNTED - 1)
    admit, locks = cache._admit, list[int]()

    @contextlib.contextmanager
    def together(contents: Contents) -> Iterator[None]:
        gate.wait(10)
        with admit(contents):
            with contextlib.suppress(threading.BrokenBarrierError):
                gate.wait(0.5)  # until the other one was admitted as well, or refused
            yield

    cache._admit = together  # type: ignore[method-assign]

    def use(digest: str) -> None:
        try:
            locks.append(cache.use("acme", digest))
        except DiskShort:
            refused.append(digest)

    threads = [threading.Thread(target=use, args=(digest,)) for digest in both]
    run_all(threads)
    assert (1, 1) == (len(locks), len(refused))
    os.close(locks[0])


def test_empty_files_count_as_they_take_inodes(tmp_path: Path, bucket: Bucket):
    cache = open_cache(tmp_path, bucket, most_bytes=10 * EACH_BYTES)
    with pytest.raises(DiskShort):
        cache.use("acme", bucket.add(*(entry(str(n), b"") for n in range(11))))
    os.close(cache.use("acme", bucket.add(*(entry(str(n), b"") for n in range(10)))))


def test_a_size_that_the_zip_file_only_claims_takes_nothing_from_others(
    tmp_path: Path, bucket: Bucket
):
    honest = zip_entries(entry("data", b"1" * 1000))
    liar = honest.replace(struct.pack("<I", 1000), struct.pack("<I", 1_000_000))
    bucket.bundles[digest_of(liar)] = liar
    cache = open_cache(tmp_path, bucket)
    with pytest.raises(BundleUnusable, match="'data' has fewer than 1000000 bytes"):
        cache.use("acme", digest_of(liar))


def test_a_use_outlives_the_process_that_took_it(tmp_path: Path, bucket: Bucket):
    first = bucket.add(of_a_file(1))
    cache = open_cache(tmp_path, bucket, most_bytes=COUNTED)
    lock = cache.use("acme", first)
    holder = os.fork()
    if not holder:  # as a shim, which holds the descriptor
        threading.Event().wait(60)
        os._exit(0)
    try:
        os.close(lock)
        again = open_cache(tmp_path, bucket, most_bytes=COUNTED)
        with pytest.raises(DiskShort):
            again.use("acme", bucket.add(of_a_file(2)))
        assert first in names(again)
    finally:
        os.kill(holder, 9)
        os.waitpid(holder, 0)
    os.close(again.use("acme", bucket.add(of_a_file(2))))
    assert first not in names(again)


def test_bundles_are_read_from_the_tenants_place(aws: Cloud):
    s3 = aws.clients.make("s3")
    s3.put_object(Bucket=DESCRIPTOR.bucket, Key=f"bundles/acme/{'a' * 64}", Body=b"zip")
    downloads = BundleDownloads(lambda: s3, DESCRIPTOR.bucket)
    assert b"zip" == b"".join(downloads.download("acme", "a" * 64).chunks)
    with pytest.raises(ObjectGone, match="bundles/other"):
        downloads.download("other", "a" * 64)


def test_what_a_bundle_takes_is_what_the_agent_counts(tmp_path: Path):
    """Directories count, too: each takes a block."""
    folder = tmp_path / "x86_64"
    for name, size in {"a.py": 5000, "b/c/d.py": 1, "b/e.py": 3_000_000}.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(bytes(size))
    bundle = write_archive(folder, "x86_64")
    target = tmp_path / "unpacked"
    target.mkdir()
    with bundle.path.open("rb") as file:
        contents = unpack(file, target)
    assert to_mib(bundle.size + contents.on_disk) == bundle.disk_mb
    assert (5, 3_005_001) == (contents.files, contents.size)
