"""The input files on this host, by tenant and digest, shared by all jobs that need them.

    <sha256>.<tenant>     a file, complete and verified: it was renamed from .part-<number>
    .part-<number>        a file that is being downloaded
    boot                  the boot in which the files were written

A file is handed out as a hard link in the directory of an attempt (`staging.py`): what is removed
from the cache stays until the last of these links is gone, so nothing here has to be locked while
it is used. A job gets a copy, and cannot change what is here. The tenant is part of the name: a
digest alone gives no access to what another tenant has uploaded.
"""

import contextlib
import hashlib
import itertools
import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from ec2_agent.files.transfers import Proceed, Stopped, acquire
from ec2_agent.processes import boot_id
from ec2_agent.sandbox.disk.space import DiskSpace
from joblane.aws.files.download import Download, ObjectGone
from joblane.files.fields import MAX_FILE_BYTES

CACHE_BYTES = 10 << 30
"""Above this the least recently used files are removed. As much as the inputs of one job may have
by default."""

CACHE_FILES = 50_000
"""Above this too. Their names are in memory, with about 250 bytes each."""

_PART = ".part-"
_BOOT = "boot"

Begin = Callable[[str, str], Download]
"""Begins to read the file of a tenant and a digest: see `FileStore.download`."""


class FileUnusable(Exception):
    """An input file cannot be had; trying again would not help. The text says why."""


@dataclass(slots=True)
class _Turn:
    """Held by the one thread that downloads a file; others wait for it."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    users: int = 0


class FileCache:
    """The input files of one agent, whose state directory has one process. Thread-safe."""

    def __init__(
        self,
        directory: Path,
        download: Begin,
        space: DiskSpace,
        *,
        most_bytes: int = CACHE_BYTES,
        most_files: int = CACHE_FILES,
    ) -> None:
        """Open the cache, and remove what an earlier process has left unfinished.

        After a boot everything is removed: what was written before may not have reached the disk.
        `space` is the account of the file system of `directory`.
        """
        self.directory = directory
        self._download = download
        self._space = space
        self._most_bytes = most_bytes
        self._most_files = most_files
        self._changing = threading.Lock()
        """Held while files are added, linked and removed."""
        self._turns: dict[str, _Turn] = {}
        self._parts = itertools.count()
        self._sizes: OrderedDict[str, int] = OrderedDict()
        """Bytes of each file, the least recently used first."""
        self._bytes = 0
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._take_over()
        space.reclaims.append(self._give_up_one)
        # With files that an attempt is being given: those are reserved for it until it starts.
        space.reclaimable.append(lambda: self._bytes)

    def _take_over(self) -> None:
        """Keep the complete files of an earlier process of this boot; remove the rest."""
        boot = self.directory / _BOOT
        same = boot.exists() and boot.read_text(encoding="ascii") == boot_id()
        found: list[tuple[int, str, int]] = []
        for entry in os.scandir(self.directory):
            if entry.name == _BOOT:
                continue
            if not same or entry.name.startswith("."):
                _unlink(Path(entry.path))
                continue
            stat = entry.stat(follow_symlinks=False)
            found.append((stat.st_mtime_ns, entry.name, stat.st_size))
        for _, name, size in sorted(found):
            self._sizes[name] = size
            self._bytes += size
        if not same:
            boot.write_text(boot_id(), encoding="ascii")

    def place(self, tenant: str, sha256: str, directory: int, name: str, proceed: Proceed) -> None:
        """Make a hard link to a file, `name` in `directory`; downloads the file first if need be.

        A file is downloaded once, however many threads ask. Raises FileUnusable, Stopped,
        DiskShort, HostLacks, OSError and AWS's errors.
        """
        key = f"{sha256}.{tenant}"
        with self._turn(key, proceed):
            if not self._link(key, directory, name):
                self._fetch(key, (tenant, sha256), (directory, name), proceed)

    @contextlib.contextmanager
    def _turn(self, key: str, proceed: Proceed) -> Iterator[None]:
        with self._changing:
            turn = self._turns.setdefault(key, _Turn())
            turn.users += 1
        try:
            acquire(turn.lock.acquire, proceed)
            try:
                yield
            finally:
                turn.lock.release()
        finally:
            with self._changing:
                turn.users -= 1
                if not turn.users:
                    del self._turns[key]

    def _link(self, key: str, directory: int, name: str) -> bool:
        """Link a file that is here; False if it is not."""
        path = self.directory / key
        with self._changing:
            if key not in self._sizes:
                return False
            try:
                os.link(path, name, dst_dir_fd=directory)
            except FileNotFoundError:
                self._bytes -= self._sizes.pop(key)
                return False
            self._sizes.move_to_end(key)
        with contextlib.suppress(OSError):
            os.utime(path)  # for the order after a restart
        return True

    def _fetch(
        self, key: str, source: tuple[str, str], target: tuple[int, str], proceed: Proceed
    ) -> None:
        """Download a file, link it, and add it to the cache; it appears complete or not at all."""
        part = self.directory / f"{_PART}{next(self._parts)}"
        try:
            size = self._receive(source, part, proceed)
            os.link(part, target[1], dst_dir_fd=target[0])  # before it can be removed again
            with self._changing:
                part.rename(self.directory / key)
                self._sizes[key] = size
                self._bytes += size
                self._shrink()
        finally:
            _unlink(part)

    def _receive(self, source: tuple[str, str], part: Path, proceed: Proceed) -> int:
        """Download a file and verify it while it is written; returns its size."""
        tenant, sha256 = source
        try:
            begun = self._download(tenant, sha256)
        except ObjectGone:
            named = f"SHA-256 {sha256[:12]}\u2026"
            raise FileUnusable(f"S3 has no file with {named}; upload it again") from None
        if begun.size > MAX_FILE_BYTES:
            raise FileUnusable(f"it has more than {MAX_FILE_BYTES} bytes")
        found, size = hashlib.sha256(), 0
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
        with (
            self._space.reserve(begun.size, "an input file") as reserved,
            os.fdopen(os.open(part, flags, 0o600), "wb", buffering=0) as file,
        ):
            for chunk in begun.chunks:
                if not proceed():
                    raise Stopped
                size += len(chunk)
                found.update(chunk)
                _write(file.fileno(), chunk)
                reserved.note_written(len(chunk))
        if found.hexdigest() != sha256:
            raise FileUnusable("the file in S3 has another digest; upload it again")
        return size

    def _give_up_one(self) -> bool:
        """Remove the least recently used file that no attempt is being given now."""
        with self._changing:
            for key in self._sizes:
                with contextlib.suppress(OSError):
                    if (self.directory / key).stat().st_nlink > 1:
                        continue
                self._evict(key)
                return True
        return False

    def _shrink(self) -> None:
        while self._bytes > self._most_bytes or len(self._sizes) > self._most_files:
            self._evict(next(iter(self._sizes)))  # the least recently used

    def _evict(self, key: str) -> None:
        self._bytes -= self._sizes.pop(key)
        _unlink(self.directory / key)


def _write(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def _unlink(path: Path) -> None:
    """Remove a file; what cannot be removed is tried again at the next start."""
    with contextlib.suppress(OSError):
        path.unlink()
