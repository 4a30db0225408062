"""The account of a disk that is really small: what an attempt writes is reserved first."""

import asyncio
import contextlib
import fcntl
import hashlib
import os
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ec2_agent.bundles.cache import MAX_ZIP_BYTES, BundleCache
from ec2_agent.bundles.unpack import MAX_FILES, MAX_UNPACKED_BYTES, Contents
from ec2_agent.files.cache import FileCache
from ec2_agent.files.inputs import InputFetch, InputFiles
from ec2_agent.files.staging import Stages
from ec2_agent.files.transfers import Transfers
from ec2_agent.messages.hiding import LACKING
from ec2_agent.sandbox.disk.loop import LoopDisks, image_bytes
from ec2_agent.sandbox.disk.space import KEEP_BYTES, MIB, DiskSpace
from ec2_agent.sandbox.launcher import Launcher
from ec2_agent.sandbox.model import DiskShort, HostLacks, SandboxRefused
from ec2_agent.shim.log import CAP_BYTES, LOOK_BYTES, MAX_RECORD, Writer
from joblane.aws.files.download import Download
from joblane.deployment.names import file_key
from joblane.job.disk import MOST_BUNDLE_MB, OUTPUT_MB, to_mib
from joblane.job.head import Head, make_head
from joblane.state.lifecycle import State
from tests.support.agents import Parts
from tests.support.attempts import begin, lengths, output
from tests.support.aws import DESCRIPTOR, Cloud
from tests.support.jobs import JOB, submission
from tests.support.scarcity import disk
from tests.support.threads import run_all
from tests.unit.agent.files.test_bundle_cache import digest_of, entry, zip_entries

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root may mount a small disk")

DISK_MB, KEEP_MB = 40, 10


@pytest.fixture(name="place")
def _place(tmp_path: Path) -> Iterator[Path]:
    """A disk of 40 MiB and 1000 files."""
    with disk(tmp_path / "small", f"size={DISK_MB}m,nr_inodes=1000"):
        yield tmp_path / "small"


@pytest.fixture(name="space")
def _space(place: Path) -> DiskSpace:
    return DiskSpace(place, keep_bytes=KEEP_MB * MIB, keep_files=100)


def free_mb(place: Path) -> float:
    found = os.statvfs(place)
    return found.f_bavail * found.f_frsize / MIB


def take(place: Path, mb: int) -> None:
    (place / f"taken-{mb}").write_bytes(bytes(mb * MIB))


def test_what_is_reserved_is_gone_and_comes_back(space: DiskSpace):
    with space.reserve(20 * MIB, "one"):
        with pytest.raises(DiskShort, match=r"two of 11 MiB: the file .* has 10 MiB left"):
            space.reserve(11 * MIB, "two").__enter__()
        with space.reserve(10 * MIB, "three"):
            pass
    with space.reserve(30 * MIB, "four"):
        pass


def test_what_was_written_counts_once(space: DiskSpace, place: Path):
    with space.reserve(20 * MIB, "one") as one:
        take(place, 15)
        one.note_written(15 * MIB)
        with space.reserve(10 * MIB, "two"), pytest.raises(DiskShort):
            space.reserve(1 * MIB, "three").__enter__()


def test_what_the_host_never_has_is_left_to_other_hosts(space: DiskSpace):
    with pytest.raises(HostLacks, match=r"one of 31 MiB: .* has room for 30 MiB; use less"):
        space.reserve(31 * MIB, "one").__enter__()


def test_what_disks_of_running_jobs_may_still_take_is_theirs(space: DiskSpace):
    space.promised = lambda: 25 * MIB
    with pytest.raises(DiskShort, match="has 5 MiB left"):
        space.reserve(6 * MIB, "one").__enter__()


def test_inodes_are_in_the_account(space: DiskSpace):
    with space.reserve(0, "one", 500), pytest.raises(DiskShort, match="two of 400 files"):
        space.reserve(0, "two", 400).__enter__()


def test_what_is_on_another_file_system_has_another_account(
    space: DiskSpace, place: Path, tmp_path: Path
):
    (place / "here").mkdir()
    assert space.has(place / "here")
    assert not space.has(tmp_path)
    assert not space.has(place / "nowhere")


def test_no_two_threads_get_the_same_room(space: DiskSpace):
    gate, got = threading.Barrier(8), list[int]()

    def ask(n: int) -> None:
        gate.wait(10)
        with contextlib.suppress(DiskShort), space.reserve(10 * MIB, "it"):
            got.append(n)
            gate.wait(10)
            return
        gate.wait(10)

    threads = [threading.Thread(target=ask, args=(n,)) for n in range(8)]
    run_all(threads)
    assert 3 == len(got)


class Bucket:
    """Objects to download, and how many bytes were read of them."""

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}
        self.read = 0

    def add(self, data: bytes) -> str:
        """Put one there; returns its digest."""
        self.objects[digest_of(data)] = data
        return digest_of(data)

    def download(self, _: str, sha256: str) -> Download:
        """Read one, as from S3."""
        data = self.objects[sha256]
        return Download(len(data), self._chunks(data))

    def _chunks(self, data: bytes) -> Iterator[bytes]:
        for at in range(0, len(data), MIB):
            self.read += MIB
            yield data[at : at + MIB]


class Kinds:
    """What an attempt writes, each kind on the small disk."""

    def __init__(self, place: Path, space: DiskSpace) -> None:
        self.place, self.space, self.bucket = place, space, Bucket()
        self.files = FileCache(place / "cache", self.bucket.download, space)
        self.bundles = BundleCache(place / "bundles", self.bucket.download, space)

    def fetch(self, *, own_users: bool, **fields: Any) -> InputFetch:
        """Fetch for a job that has the file by these fields."""
        inputs = InputFiles(
            self.files, Stages(self.place / "stage"), Transfers(), self.space, own_users=own_users
        )
        head = make_head(JOB, "acme", submission(**fields), 0)
        fetch = InputFetch(inputs, head, lambda: True, lambda *_: None)
        fetch.run()
        return fetch

    def input_file(self, size: int) -> None:
        """Fetch an input file."""
        sha256 = self.bucket.add(os.urandom(size))
        inputs = [{"path": "data", "sha256": sha256}]
        self.fetch(own_users=True, inputs=inputs).close()

    def zip_file(self, size: int) -> None:
        """Download a bundle that unpacks to no more."""
        os.close(
            self.bundles.use("acme", self.bucket.add(zip_entries(entry("a", os.urandom(size)))))
        )

    def unpacked(self, size: int) -> None:
        """Unpack a bundle of a few bytes."""
        os.close(self.bundles.use("acme", self.bucket.add(zip_entries(entry("a", bytes(size))))))

    def work_directory(self, size: int) -> None:
        """Make a disk for `disk_mb`."""
        LoopDisks(self.place, self.space).make(size // MIB).close()

    def output(self, size: int) -> None:
        """Not refused before its first byte, since nobody knows its size: it ends there."""
        path = self.place / "log"
        writer = Writer(os.open(path, os.O_WRONLY | os.O_CREAT), keep=KEEP_MB * MIB)
        for _ in range(size // MAX_RECORD):
            writer.write("stdout", bytes(MAX_RECORD), 1)
        writer.close()
        if writer.lost:
            raise DiskShort(f"{writer.lost} bytes")


@pytest.mark.parametrize("kind", ["input_file", "zip_file", "unpacked", "work_directory", "output"])
def test_nothing_that_an_attempt_writes_touches_what_stays_free(
    place: Path, space: DiskSpace, kind: str
):
    kinds = Kinds(place, space)
    write: Callable[[int], None] = getattr(kinds, kind)
    taken = 22  # of 30
    take(place, taken)
    before, slack = free_mb(place), (LOOK_BYTES + MAX_RECORD) / MIB
    with pytest.raises(DiskShort) as short:
        write(12 * MIB)
    assert free_mb(place) >= KEEP_MB - slack
    if kind != "output":
        assert before - 1 < free_mb(place), "not a byte was written"
        assert 0 == kinds.bucket.read or kind == "unpacked", "nothing was downloaded"
        assert f"of {place}" in short.value.reason
        assert "MiB left for jobs" in short.value.reason
    (place / f"taken-{taken}").unlink()
    with contextlib.suppress(FileNotFoundError):
        (place / "log").unlink()
    write(12 * MIB)


def test_a_file_for_standard_input_is_not_copied_where_jobs_have_their_own_users(
    place: Path, space: DiskSpace
):
    """As often as it is used at the same time: a copy each would not fit."""
    kinds = Kinds(place, space)
    sha256 = kinds.bucket.add(os.urandom(12 * MIB))
    with contextlib.ExitStack() as held:
        for _ in range(4):
            fetch = held.enter_context(kinds.fetch(own_users=True, stdin_file=sha256))
            assert fetch.stdin is not None
            assert 12 * MIB == len(os.pread(fetch.stdin, 20 * MIB, 0))
            assert os.O_RDONLY == fcntl.fcntl(fetch.stdin, fcntl.F_GETFL) & os.O_ACCMODE
            with pytest.raises(OSError, match="Bad file descriptor"):
                os.write(fetch.stdin, b"x")
        assert free_mb(place) > DISK_MB - 13


def test_a_copy_of_standard_input_is_reserved(place: Path, space: DiskSpace):
    kinds = Kinds(place, space)
    sha256 = kinds.bucket.add(os.urandom(12 * MIB))
    first = kinds.fetch(own_users=False, stdin_file=sha256)
    with pytest.raises(DiskShort, match="a copy of its standard input of 12 MiB"):
        kinds.fetch(own_users=False, stdin_file=sha256)
    assert free_mb(place) >= KEEP_MB
    first.close()


def test_what_is_not_in_use_makes_room_for_other_kinds(place: Path, space: DiskSpace):
    kinds = Kinds(place, space)
    kinds.input_file(12 * MIB)
    kinds.unpacked(12 * MIB)
    kinds.work_directory(16)
    assert free_mb(place) >= KEEP_MB
    kinds.unpacked(20 * MIB)
    kinds.input_file(20 * MIB)
    assert ["boot"] == [path.name for path in (place / "bundles").iterdir()]


def test_a_file_that_is_being_given_to_a_job_is_kept(place: Path, space: DiskSpace):
    kinds = Kinds(place, space)
    sha256 = kinds.bucket.add(os.urandom(20 * MIB))
    inputs = [{"path": "data", "sha256": sha256}]
    with kinds.fetch(own_users=True, inputs=inputs):
        with pytest.raises(DiskShort):
            kinds.unpacked(12 * MIB)
        assert (place / "cache" / f"{sha256}.acme").exists()
    kinds.unpacked(12 * MIB)


def attempt(
    aws: Cloud, launcher: Launcher, monkeypatch: pytest.MonkeyPatch, place: Path
) -> tuple[Parts, Head]:
    """Run an attempt of a job whose input file does not fit beside what the disk has."""
    data = os.urandom(12 * MIB)
    sha256 = hashlib.sha256(data).hexdigest()
    key = file_key("acme", sha256)
    aws.clients.make("s3").put_object(Bucket=DESCRIPTOR.bucket, Key=key, Body=data)
    inputs = [{"path": "data", "sha256": sha256}]
    parts, tried = begin(aws, launcher, command=["true"], inputs=inputs)
    space = DiskSpace(place, keep_bytes=KEEP_MB * MIB)
    monkeypatch.setattr(tried.parts.preparation.files.cache, "_space", space)
    asyncio.run(tried.run())
    return parts, aws.job(JOB)


def test_a_job_without_room_is_left_to_others_while_the_rest_goes_on_here(
    aws: Cloud, launcher: Launcher, place: Path, monkeypatch: pytest.MonkeyPatch
):
    take(place, 22)
    parts, head = attempt(aws, launcher, monkeypatch, place)
    assert (State.PENDING, 0) == (head.state, head.attempt)
    reason = head.timeline[-1].reason
    assert reason.startswith("not started: an input file of 12 MiB: the file system of")
    assert "has 8 MiB left for jobs" in reason
    assert (1, 0) == lengths(aws)  # which may have it at once
    assert parts.capacity.why is None
    assert parts.lacking.knows(JOB)
    later = time.monotonic() + LACKING.first_s
    monkeypatch.setattr(parts.lacking, "_monotonic", lambda: later)
    assert not parts.lacking.knows(JOB), "by then there may be room"


def test_output_ends_where_the_agent_itself_would_lack_the_room(
    aws: Cloud, launcher: Launcher, tmp_path: Path
):
    parts, tried = begin(aws, launcher, command=["/bin/echo", "said"])
    parts.jobs_dir = tmp_path / "jobs"
    with disk(parts.jobs_dir, f"size={KEEP_BYTES // MIB}m"):
        tried = parts.attempt(tried.head, tried.delivery)
        asyncio.run(tried.run())
    assert State.COMPLETED is aws.job(JOB).state
    assert [] == output(aws, aws.job(JOB))


def test_a_disk_that_is_too_small_at_any_time_is_another_hosts_job(space: DiskSpace, place: Path):
    with pytest.raises(SandboxRefused, match="has room for 30 MiB") as refused:
        LoopDisks(place, space).make(40)
    assert isinstance(refused.value, HostLacks)
    assert image_bytes(40) > 30 * MIB


# What jobs may have before they are claimed.


def now_mb(space: DiskSpace) -> tuple[int, int]:
    """What is available, with what caches could give up and without, in MiB rounded."""
    found = space.available()
    return round(found.now / MIB), round(found.uncached / MIB)


def test_what_caches_could_give_up_is_available(place: Path, space: DiskSpace):
    kinds = Kinds(place, space)
    assert (30, 30) == now_mb(space)
    kinds.input_file(8 * MIB)
    kinds.unpacked(4 * MIB)
    assert (30, 18) == now_mb(space)
    take(place, 10)
    assert (20, 8) == now_mb(space)
    assert (DISK_MB - KEEP_MB) * MIB == space.available().total


def test_a_bundle_in_use_is_not_available(place: Path, space: DiskSpace):
    kinds = Kinds(place, space)
    data = zip_entries(entry("a", bytes(6 * MIB)))
    used = kinds.bundles.use("acme", kinds.bucket.add(data))
    assert (24, 24) == now_mb(space)
    os.close(used)
    assert (30, 24) == now_mb(space)


def test_an_agent_looks_at_the_disk_while_a_bundle_is_unpacked(place: Path, space: DiskSpace):
    """Which may take minutes; the look is made in the event loop."""
    kinds = Kinds(place, space)
    kinds.unpacked(6 * MIB)
    assert (30, 24) == now_mb(space)
    with kinds.bundles._changing:  # as while others are removed
        assert (30, 24) == now_mb(space)


def test_what_is_being_written_is_available_to_whom_it_is_reserved_for(
    place: Path, space: DiskSpace
):
    """The desk has reserved all of it, whether it is written or not."""
    with space.reserve(20 * MIB, "one") as one:
        assert (30, 10) == now_mb(space)
        take(place, 15)
        one.note_written(15 * MIB)
        assert (30, 10) == now_mb(space)


def test_files_do_not_take_what_jobs_may_write_of_their_output(place: Path, space: DiskSpace):
    kinds = Kinds(place, space)
    space.outputs = lambda: 12 * MIB
    kinds.input_file(16 * MIB)
    kinds.input_file(17 * MIB)
    assert (30, 13) == now_mb(space), "the first one made room for the second"
    with pytest.raises(DiskShort, match="has 17 MiB left for jobs"):  # and some KB of the caches
        kinds.input_file(19 * MIB)


def test_caches_make_room_for_output(place: Path, space: DiskSpace):
    kinds = Kinds(place, space)
    kinds.input_file(14 * MIB)
    kinds.input_file(14 * MIB)
    space.outputs = lambda: 12 * MIB
    space.make_room()
    assert (30, 16) == now_mb(space)
    space.outputs = lambda: 31 * MIB
    space.make_room()  # as much as there is
    assert (30, 30) == now_mb(space)


def test_the_figures_of_the_domain_are_those_of_the_agent():
    assert CAP_BYTES == OUTPUT_MB * MIB
    zipped, files = to_mib(MAX_ZIP_BYTES), to_mib(Contents(MAX_UNPACKED_BYTES, MAX_FILES).on_disk)
    assert 0 <= MOST_BUNDLE_MB - zipped - files <= 1
