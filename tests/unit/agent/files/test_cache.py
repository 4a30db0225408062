"""The agent's cache of input files: one download, verified, bounded, and nothing half-made."""

import errno
import hashlib
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ec2_agent.files import cache as caching
from ec2_agent.files.cache import FileCache, FileUnusable
from ec2_agent.files.transfers import Stopped, Transfers
from ec2_agent.sandbox.disk.space import DiskSpace
from joblane.aws.files.download import Download, ObjectGone


def go_on() -> bool:
    return True


class Bucket:
    """Files to download, and how often each was."""

    def __init__(self) -> None:
        self.files: dict[tuple[str, str], bytes] = {}
        self.downloads: list[tuple[str, str]] = []
        self.before: Callable[[], None] = lambda: None

    def add(self, data: bytes, tenant: str = "acme") -> str:
        """Put a file there; returns its digest."""
        sha256 = hashlib.sha256(data).hexdigest()
        self.files[tenant, sha256] = data
        return sha256

    def download(self, tenant: str, sha256: str) -> Download:
        """Read one, as from S3."""
        self.downloads.append((tenant, sha256))
        self.before()
        if (tenant, sha256) not in self.files:
            raise ObjectGone(f"s3://bucket/files/{tenant}/{sha256}")
        data = self.files[tenant, sha256]
        return Download(len(data), iter((data[:3], data[3:])))


@pytest.fixture(name="bucket")
def _bucket() -> Bucket:
    return Bucket()


@pytest.fixture(name="stage")
def _stage(tmp_path: Path) -> Iterator[int]:
    (tmp_path / "stage").mkdir()
    fd = os.open(tmp_path / "stage", os.O_RDONLY | os.O_DIRECTORY)
    yield fd
    os.close(fd)


def read_staged(tmp_path: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (tmp_path / "stage").iterdir()}


def open_cache(tmp_path: Path, bucket: Bucket, **bounds: int) -> FileCache:
    """The cache of an agent that starts."""
    return FileCache(tmp_path / "cache", bucket.download, DiskSpace(tmp_path), **bounds)


def list_cached(cache: FileCache) -> set[str]:
    return {path.name for path in cache.directory.iterdir()} - {"boot"}


def test_a_file_is_downloaded_once_for_all_jobs_and_after_a_restart(
    tmp_path: Path, bucket: Bucket, stage: int
):
    sha256 = bucket.add(b"the data")
    for name in ("0", "1"):
        open_cache(tmp_path, bucket).place("acme", sha256, stage, name, go_on)
    assert {"0": b"the data", "1": b"the data"} == read_staged(tmp_path)
    assert [("acme", sha256)] == bucket.downloads
    assert 0o600 == (tmp_path / "stage" / "0").stat().st_mode & 0o777


def hold_downloads(bucket: Bucket) -> tuple[threading.Event, threading.Event]:
    """Hold downloads up; returns what is set when one has begun, and what lets them go on."""
    entered, go = threading.Event(), threading.Event()

    def wait() -> None:
        entered.set()
        assert go.wait(10)

    bucket.before = wait
    return entered, go


def test_threads_that_need_the_same_file_download_it_once(
    tmp_path: Path, bucket: Bucket, stage: int
):
    sha256 = bucket.add(b"x" * 100)
    cache = open_cache(tmp_path, bucket)
    entered, go = hold_downloads(bucket)
    threads = [
        threading.Thread(target=cache.place, args=("acme", sha256, stage, str(n), go_on))
        for n in range(5)
    ]
    for thread in threads:
        thread.start()
    assert entered.wait(10)
    go.set()
    for thread in threads:
        thread.join()
    assert 1 == len(bucket.downloads)
    assert {str(n) for n in range(5)} == set(read_staged(tmp_path))


def test_another_tenant_does_not_get_a_file_by_its_digest(
    tmp_path: Path, bucket: Bucket, stage: int
):
    sha256 = bucket.add(b"secret", tenant="acme")
    cache = open_cache(tmp_path, bucket)
    cache.place("acme", sha256, stage, "0", go_on)
    with pytest.raises(FileUnusable, match=r"S3 has no file .* upload it again"):
        cache.place("other", sha256, stage, "1", go_on)
    assert {"0"} == set(read_staged(tmp_path))


def test_a_file_whose_digest_differs_is_refused_and_not_kept(
    tmp_path: Path, bucket: Bucket, stage: int
):
    sha256 = bucket.add(b"good")
    bucket.files["acme", sha256] = b"bad!"
    cache = open_cache(tmp_path, bucket)
    with pytest.raises(FileUnusable, match="another digest"):
        cache.place("acme", sha256, stage, "0", go_on)
    assert {} == read_staged(tmp_path)
    assert set() == list_cached(cache)


def test_a_stopped_attempt_leaves_nothing_and_the_next_one_downloads(
    tmp_path: Path, bucket: Bucket, stage: int
):
    sha256 = bucket.add(b"the data")
    cache = open_cache(tmp_path, bucket)
    stops = iter((True, False))
    with pytest.raises(Stopped):
        cache.place("acme", sha256, stage, "0", lambda: next(stops))
    assert set() == list_cached(cache)
    cache.place("acme", sha256, stage, "0", go_on)
    assert {"0": b"the data"} == read_staged(tmp_path)


def test_a_job_that_is_stopped_does_not_wait_for_the_download_of_another(
    tmp_path: Path, bucket: Bucket, stage: int
):
    sha256 = bucket.add(b"the data")
    cache = open_cache(tmp_path, bucket)
    entered, go = hold_downloads(bucket)
    first = threading.Thread(target=cache.place, args=("acme", sha256, stage, "0", go_on))
    first.start()
    assert entered.wait(10)
    with pytest.raises(Stopped):
        cache.place("acme", sha256, stage, "1", lambda: False)
    go.set()
    first.join()
    assert {"0"} == set(read_staged(tmp_path))


def test_above_its_bound_the_least_recently_used_go_and_what_is_staged_stays(
    tmp_path: Path, bucket: Bucket, stage: int
):
    digests = [bucket.add(bytes([n]) * 10) for n in range(4)]
    cache = open_cache(tmp_path, bucket, most_bytes=30)
    for n in (0, 1, 2, 0, 3):
        cache.place("acme", digests[n], stage, f"{len(read_staged(tmp_path))}", go_on)
    assert {f"{digests[n]}.acme" for n in (0, 2, 3)} == list_cached(cache)
    assert 5 == len(read_staged(tmp_path))
    assert b"\1" * 10 in read_staged(tmp_path).values()
    again = open_cache(tmp_path, bucket, most_bytes=30)
    again.place(
        "acme", bucket.add(b"new"), stage, "new", go_on
    )  # the order is known after a restart
    assert f"{digests[2]}.acme" not in list_cached(again)


def test_the_number_of_files_is_bounded_too(tmp_path: Path, bucket: Bucket, stage: int):
    cache = open_cache(tmp_path, bucket, most_files=2)
    for n in range(5):
        cache.place("acme", bucket.add(bytes([n])), stage, str(n), go_on)
    assert 2 == len(list_cached(cache))


def test_a_file_larger_than_the_bound_is_placed_and_not_kept(
    tmp_path: Path, bucket: Bucket, stage: int
):
    cache = open_cache(tmp_path, bucket, most_bytes=5)
    cache.place("acme", bucket.add(b"larger than that"), stage, "0", go_on)
    assert {"0": b"larger than that"} == read_staged(tmp_path)
    assert set() == list_cached(cache)


def test_what_was_being_downloaded_is_removed_at_the_start_and_everything_after_a_boot(
    tmp_path: Path, bucket: Bucket, stage: int, monkeypatch: pytest.MonkeyPatch
):
    sha256 = bucket.add(b"the data")
    cache = open_cache(tmp_path, bucket)
    cache.place("acme", sha256, stage, "0", go_on)
    (cache.directory / ".part-7").write_bytes(b"the d")
    assert {f"{sha256}.acme"} == list_cached(open_cache(tmp_path, bucket))
    monkeypatch.setattr(caching, "boot_id", lambda: "another boot")
    assert set() == list_cached(open_cache(tmp_path, bucket))


def test_a_file_that_somebody_removed_is_downloaded_again(
    tmp_path: Path, bucket: Bucket, stage: int
):
    sha256 = bucket.add(b"the data")
    cache = open_cache(tmp_path, bucket)
    cache.place("acme", sha256, stage, "0", go_on)
    (cache.directory / f"{sha256}.acme").unlink()
    cache.place("acme", sha256, stage, "1", go_on)
    assert 2 == len(bucket.downloads)
    assert b"the data" == read_staged(tmp_path)["1"]


def test_transfers_run_at_most_so_many_at_once_over_all_jobs():
    transfers, lock = Transfers(at_once=3), threading.Lock()
    running, most, done = 0, 0, list[int]()
    full = threading.Barrier(3)

    def do(n: int) -> None:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        full.wait(10)
        with lock:
            running -= 1
            done.append(n)

    jobs = [
        threading.Thread(target=transfers.run_each, args=(range(n, n + 6), do, go_on))
        for n in (0, 6)
    ]
    for job in jobs:
        job.start()
    for job in jobs:
        job.join()
    assert 3 == most
    assert set(range(12)) == set(done)


def test_the_first_error_of_a_transfer_ends_the_others():
    begun = list[int]()

    def do(n: int) -> None:
        begun.append(n)
        raise OSError(errno.ENOSPC, "full")

    with pytest.raises(OSError, match="full"):
        Transfers(at_once=2).run_each(range(1000), do, go_on)
    assert len(begun) <= 2
    with pytest.raises(Stopped):
        Transfers().run_each(range(10), begun.append, lambda: False)
