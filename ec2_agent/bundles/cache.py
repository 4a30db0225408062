"""The bundles on this host: one directory for each digest, shared by all jobs that need it.

    <digest>/        the files of a bundle, complete: it was renamed from .new-<digest>
    <digest>.use     what counts for it, and its bytes; its time is that of the last use; locked
                     while in use
    .zip-<digest>, .new-<digest>, .old-<digest>     being downloaded, unpacked, removed
    boot             the boot in which the bundles were unpacked

A use is a shared lock (`flock`) on `<digest>.use`, on a descriptor that the shim of the job holds:
it ends with the job, however that ends, and outlives the agent. What is locked is not removed.
"""

import contextlib
import fcntl
import hashlib
import os
import shutil
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO

from ec2_agent.bundles.unpack import BadBundle, Contents, unpack
from ec2_agent.processes import boot_id
from ec2_agent.sandbox.disk.space import MIB, DiskSpace
from ec2_agent.sandbox.model import DiskShort
from joblane.aws.files.download import Download, ObjectGone

CACHE_BYTES = 4 << 30
"""Of all bundles, by `Contents.charged`. Those that are not in use make room, the least recently
used first; where those in use leave none, a job is left to another agent."""

MAX_ZIP_BYTES = 250_000_000

_USE = ".use"
_ASIDE = (".zip-", ".new-", ".old-")

Begin = Callable[[str, str], Download]
"""Begins to read the bundle of a tenant and a digest: see `BundleDownloads.download`."""


class BundleUnusable(Exception):
    """A bundle cannot be had; trying again would not help. The text says why."""


class BundleCache:
    """The bundles of one agent, whose state directory has one process. Thread-safe."""

    def __init__(
        self, directory: Path, download: Begin, space: DiskSpace, *, most_bytes: int = CACHE_BYTES
    ) -> None:
        """Open the cache, and remove what an earlier process has left unfinished.

        After a boot everything is removed: what was written before may not have reached the disk.
        `space` is the account of the file system of `directory`.
        """
        self.directory = directory
        self._download = download
        self._space = space
        self._coming = 0
        """Bytes of bundles that are being unpacked."""
        self._most_bytes = most_bytes
        self._changing = threading.Lock()
        """Held while bundles are locked and removed."""
        self._fetching: dict[str, threading.Lock] = {}
        """Held by the one thread that downloads a bundle."""
        directory.mkdir(mode=0o755, exist_ok=True)
        for entry in directory.iterdir():
            if entry.name.startswith(_ASIDE):
                _remove(entry)
        boot = directory / "boot"
        if not boot.exists() or boot.read_text(encoding="ascii") != boot_id():
            for digest in self._digests():
                self._evict(digest)
            boot.write_text(boot_id(), encoding="ascii")
        space.reclaims.append(self._give_up_one)
        self._unused = 0
        """Bytes of the bundles that are not in use, as they were found last."""
        space.found_reclaimable.append(self._count_unused)

    def use(self, tenant: str, digest: str) -> int:
        """Have a bundle unpacked here; returns a descriptor that keeps it while it is open.

        Downloads it once, however many threads ask. Raises BundleUnusable, DiskShort, HostLacks,
        OSError and AWS's errors.
        """
        with self._changing:
            fetching = self._fetching.setdefault(digest, threading.Lock())
        with fetching:
            lock = self._lock(digest)
            try:
                if not (self.directory / digest).is_dir():
                    self._fetch(tenant, digest, lock)
                os.utime(lock)
            except BaseException:
                os.close(lock)
                raise
        return lock

    def _lock(self, digest: str) -> int:
        with self._changing:
            path = self.directory / (digest + _USE)
            fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
            fcntl.flock(fd, fcntl.LOCK_SH)
            return fd

    def _fetch(self, tenant: str, digest: str, lock: int) -> None:
        """Download and unpack a bundle; it appears complete or not at all."""
        aside = self.directory / f".zip-{digest}", self.directory / f".new-{digest}"
        zip_path, new = aside
        try:
            with zip_path.open("w+b") as file:
                self._receive(tenant, digest, file)
                new.mkdir(mode=0o700)
                contents = unpack(file, new, self._admit)
            new.chmod(0o755)
            os.ftruncate(lock, 0)
            os.pwrite(lock, f"{contents.charged} {contents.size}".encode(), 0)
            new.rename(self.directory / digest)
        except BadBundle as bad:
            raise BundleUnusable(f"bundle {digest} cannot be unpacked: {bad}") from None
        finally:
            for path in aside:
                _remove(path)

    def _receive(self, tenant: str, digest: str, file: IO[bytes]) -> None:
        """Download a zip file, and check that it is the one that was pushed."""
        try:
            begun = self._download(tenant, digest)
        except ObjectGone as gone:
            raise BundleUnusable(f"{gone} is not there; push the type again") from None
        if begun.size > MAX_ZIP_BYTES:
            raise BundleUnusable(f"bundle {digest} has more than {MAX_ZIP_BYTES} bytes")
        found = hashlib.sha256()
        with self._space.reserve(begun.size, "its bundle") as reserved:
            for chunk in begun.chunks:
                found.update(chunk)
                file.write(chunk)
                reserved.note_written(len(chunk))
        if found.hexdigest() != digest:
            raise BundleUnusable(f"bundle {digest} has another digest; push the type again")
        file.seek(0)

    @contextlib.contextmanager
    def _admit(self, contents: Contents) -> Iterator[None]:
        """Reserve what a bundle takes while it is unpacked, in the cache and on the disk."""
        coming = contents.charged
        with self._changing:
            self._make_room(coming)
            self._coming += coming
        try:
            with self._space.reserve(contents.on_disk, "its unpacked bundle", contents.files):
                yield
        finally:
            with self._changing:
                self._coming -= coming

    def _make_room(self, coming: int) -> None:
        """Remove bundles that are not in use until another one is within the bound."""
        sizes = {digest: self._size(digest) for digest in self._digests()}
        over = sum(sizes.values()) + self._coming + coming - self._most_bytes
        for digest in sorted(sizes, key=self._used_at):
            if over <= 0:
                return
            if self._evict(digest):
                over -= sizes[digest]
        if over > 0:
            raise DiskShort(
                f"its unpacked bundle of {-(-coming // MIB)} MiB: bundles of running jobs have "
                f"taken the others of {self._most_bytes // MIB} MiB that this agent keeps"
            )

    def _give_up_one(self) -> bool:
        """Remove the least recently used bundle that is not in use; False if there is none."""
        with self._changing:
            return any(self._evict(digest) for digest in sorted(self._digests(), key=self._used_at))

    def _evict(self, digest: str) -> bool:
        """Remove a bundle unless it is in use; returns whether it was removed."""
        path = self.directory / (digest + _USE)
        try:
            fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        except OSError:
            return False
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            old = self.directory / f".old-{digest}"
            (self.directory / digest).rename(old)  # it goes as a whole
            path.unlink()
            _remove(old)
        except OSError:  # it is in use
            return False
        finally:
            os.close(fd)
        return True

    def _digests(self) -> list[str]:
        with os.scandir(self.directory) as entries:
            return [
                entry.name
                for entry in entries
                if not entry.name.startswith(".") and entry.is_dir(follow_symlinks=False)
            ]

    def _size(self, digest: str) -> int:
        """What counts for a bundle; what cannot be read is counted as the whole bound."""
        with contextlib.suppress(OSError, ValueError):
            return self._read_sizes(digest)[0]
        return self._most_bytes

    def _read_sizes(self, digest: str) -> tuple[int, int]:
        """What counts for a bundle, and the bytes of its files. Raises OSError, ValueError."""
        return _parse_sizes((self.directory / (digest + _USE)).read_bytes())

    def _count_unused(self) -> int:
        """Bytes of the bundles that are not in use.

        While bundles are locked or removed, which may take long, they are as they were before.
        """
        if self._changing.acquire(blocking=False):
            try:
                self._unused = sum(map(self._unused_bytes, self._digests()))
            finally:
                self._changing.release()
        return self._unused

    def _unused_bytes(self, digest: str) -> int:
        """Bytes of a bundle that is not in use, else 0: four system calls.

        While disk is short, all are looked at several times a second, in the agent's event loop.
        """
        with contextlib.suppress(OSError, ValueError):
            fd = os.open(f"{self.directory}/{digest}{_USE}", os.O_RDONLY | os.O_CLOEXEC)
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return _parse_sizes(os.read(fd, 64))[1]
            finally:
                os.close(fd)
        return 0

    def _used_at(self, digest: str) -> int:
        with contextlib.suppress(OSError):
            return (self.directory / (digest + _USE)).stat().st_mtime_ns
        return 0


def _parse_sizes(text: bytes) -> tuple[int, int]:
    """What counts for a bundle, and the bytes of its files. Raises ValueError."""
    charged, size = map(int, text.split())
    return charged, size


def _remove(path: Path) -> None:
    """Remove a file or a directory; what cannot be removed is tried again at the next start."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with contextlib.suppress(OSError):
            path.unlink()
