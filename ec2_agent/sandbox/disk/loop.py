"""Disks that are files with a file system of their own, by loop devices.

A file is reserved whole, so a job with a disk never finds the host's disk full, and has no name:
its space is free as soon as the mount has ended.
"""

import contextlib
import errno
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from ec2_agent.sandbox.cgroup import disks_of
from ec2_agent.sandbox.disk import calls
from ec2_agent.sandbox.disk.model import Disk, inodes_of
from ec2_agent.sandbox.disk.space import MIB, DiskSpace
from ec2_agent.sandbox.model import SandboxRefused, refusal

MKFS = "mkfs.ext4"
_PATH = "/usr/sbin:/sbin:/usr/bin:/bin"
_NO_TMPFILE = (errno.EOPNOTSUPP, errno.EISDIR, errno.ENOENT)
_INODE_BYTES = 256
_LEAST_MIB = 2
"""What a file system of any size takes for itself, in MiB; beside 1/2048 of it for bitmaps, and
its table of inodes."""
_KERNELS_SHARE = 16 * MIB
"""ext4 keeps 2 % of a file system to itself, and this at most."""
_RESERVED_INODES = 16
_FEATURES = (
    "none,64bit,dir_index,dir_nlink,ext_attr,extent,extra_isize,filetype,flex_bg,huge_file,"
    "large_file,metadata_csum,sparse_super"
)
"""Those that are usual, without a journal, which a disk for one job does not need: by name, so that
they do not depend on the host's mke2fs.conf."""

_TRIES = 16
"""Other processes take loop devices, too."""


class LoopDisks:
    """Makes disks of files below one directory."""

    def __init__(self, place: Path, space: DiskSpace) -> None:
        """Check what the host has; raises SandboxRefused with what it lacks."""
        if not Path("/dev/loop-control").exists():
            raise SandboxRefused("this host has no loop devices (/dev/loop-control)")
        mkfs = shutil.which(MKFS, path=_PATH)
        if mkfs is None:
            raise SandboxRefused(f"{MKFS} is not installed (package e2fsprogs)")
        self._mkfs = mkfs
        self._place = place
        self._space = space
        self._devices = disks_of((place,))

    def describe(self) -> str:
        """Say for operators how the size is enforced."""
        return "a file system in a file of its own"

    def takes_mb(self, size_mb: int) -> int:
        """Return the size of its file, in MiB."""
        return image_bytes(size_mb) // MIB

    def make(self, size_mb: int) -> Disk:
        """Make a disk with this many MiB for files; raises SandboxRefused."""
        try:
            with contextlib.ExitStack() as ends:
                file = self._file(size_mb)
                ends.callback(os.close, file)
                self._format(file, size_mb)
                number, device = _attach(file)
                ends.callback(os.close, device)
                # The tables of inodes are zero: the file was just reserved.
                mount = calls.mount_detached("ext4", f"/dev/loop{number}", ("noinit_itable",))
                disk = Disk(mount, (), (*self._devices, f"7:{number}"))
                try:
                    os.rmdir("lost+found", dir_fd=mount)
                except OSError:
                    disk.close()
                    raise
                return disk
        except OSError as failed:
            why = f"disk_mb {size_mb}: the disk could not be made: {failed}"
            raise refusal(failed.errno, why) from failed

    def sweep(self) -> int:
        """Remove disks that are no longer used: there are none, and none is to be removed."""
        return 0

    def _file(self, size_mb: int) -> int:
        """Make a file without a name and reserve its space."""
        size = image_bytes(size_mb)
        with self._space.reserve(size, "its work directory"):
            file = _open_unnamed(self._place)
            try:
                calls.allocate(file, size)
            except OSError:
                os.close(file)
                raise
            return file

    def _format(self, file: int, size_mb: int) -> None:
        options = "nodiscard,lazy_itable_init=1,root_owner=0:0"  # discarding would free the space
        command = [
            *(self._mkfs, "-q", "-F", "-m", "0", "-b", "4096", "-I", str(_INODE_BYTES)),
            *("-O", _FEATURES, "-E", options),
            *("-N", str(inodes_of(size_mb) + _RESERVED_INODES), f"/proc/self/fd/{file}"),
        ]
        made = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            pass_fds=(file,),
            check=False,
            env={"PATH": _PATH, "MKE2FS_CONFIG": os.devnull},
        )
        if made.returncode:
            said = made.stderr.decode("utf-8", "replace").strip()[-300:]
            raise SandboxRefused(f"disk_mb {size_mb}: {MKFS} failed: {said}")


def image_bytes(size_mb: int) -> int:
    """Return the size of a file whose file system has `size_mb` MiB for files."""
    tables = inodes_of(size_mb) * _INODE_BYTES
    size = size_mb * MIB + tables + _LEAST_MIB * MIB
    size += min(size // 48, _KERNELS_SHARE)
    return (size + size // 2048 + MIB - 1) // MIB * MIB


def _open_unnamed(place: Path) -> int:
    try:
        return os.open(place, os.O_TMPFILE | os.O_RDWR | os.O_CLOEXEC, 0o600)
    except OSError as failed:
        if failed.errno not in _NO_TMPFILE:
            raise
    file, name = tempfile.mkstemp(dir=place)
    Path(name).unlink()
    return file


def _attach(file: int) -> tuple[int, int]:
    """Attach the file to a free loop device; returns its number and a descriptor."""
    for _ in range(_TRIES):
        number = calls.free_loop_device()
        device = os.open(f"/dev/loop{number}", os.O_RDWR | os.O_CLOEXEC)
        try:
            calls.configure_loop(device, file)
        except OSError as taken:
            os.close(device)
            if taken.errno != errno.EBUSY:
                raise
            continue
        return number, device
    raise OSError(errno.EAGAIN, "every loop device that was free was taken meanwhile")
