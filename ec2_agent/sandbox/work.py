"""The work directory of one slot: a disk for it, input files in it, a descriptor of it to keep.

Part of the init of a sandbox, while that has its privileges and before its job is started. It is
in the job's cgroup, so the pages and bytes of the copies are the job's.
"""

import _socket as socket  # see wire.py
import errno
import fcntl
import os

from ec2_agent.sandbox import kernel, wire

PLACE = "/work"

_CHUNK = 16 << 20
_NO_DIRECT_COPY = (errno.EXDEV, errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP)
_FULL = (errno.ENOSPC, errno.EDQUOT)

TYPE_CHECKING = False  # see wire.py
if TYPE_CHECKING:
    Plan = tuple[tuple[bytes, int, bytes], ...]


class Asked:
    """The WORK message of a slot. A number below 0: not given."""

    __slots__ = ("disk", "keep", "plan", "stage")

    def __init__(self, disk: int, stage: int, plan: "Plan", *, keep: bool) -> None:
        self.disk = disk
        self.stage = stage
        self.plan = plan
        """Path below /work, mode and name in the stage of each input file."""
        self.keep = keep


def receive(sock: socket.socket) -> Asked:
    """Receive what the agent wants of the work directory; raises OSError if the agent is gone."""
    message, fds = wire.receive(sock)
    if not message:
        raise OSError(errno.EPIPE, "the agent closed the socket of this sandbox")
    _, has_disk, has_stage, keep = message
    disk = fds.pop(0) if has_disk else -1
    stage, plan = (fds[0], wire.read_big(fds[1])) if has_stage else (-1, ())
    return Asked(disk, stage, plan, keep=keep)


def attach(disk: int) -> None:
    """Make a detached mount the work directory, without set-uid bits and devices."""
    kernel.set_mount_attributes(disk, kernel.ATTR_NOSUID | kernel.ATTR_NODEV)
    kernel.attach(disk, PLACE)
    os.close(disk)


def prepare(asked: Asked, owner: int, tmp_mb: int) -> tuple[int, ...]:
    """Place the input files; returns a descriptor of the work directory if it is to be kept.

    Everything belongs to `owner` afterwards, or to whom it did if that is below 0. A lock on the
    directory says that it is used, for as long as this process or a holder of the descriptor lives
    (`ec2_agent/sandbox/disk/quota.py`). Raises OSError with what is to be changed if the files do
    not fit: without a disk, into `tmp_mb`.
    """
    if asked.stage >= 0:
        umask = os.umask(0)  # so that modes are as given: a later chmod would need CAP_FOWNER
        try:
            _place(asked, owner)
        except OSError as failed:
            if failed.errno not in _FULL:
                raise
            limit = f"tmp_mb ({tmp_mb} MiB for /work, /tmp and /dev/shm together)"
            if asked.disk >= 0:
                limit = "disk_mb"
            why = f"the input files do not fit into the work directory; raise {limit}"
            raise OSError(why) from failed
        os.umask(umask)
        os.close(asked.stage)
    used = os.open(PLACE, os.O_RDONLY | os.O_DIRECTORY)  # never closed here
    fcntl.flock(used, fcntl.LOCK_SH)
    return (used,) if asked.keep else ()


def _place(asked: Asked, owner: int) -> None:
    made: set[bytes] = set()
    for path, mode, name in asked.plan:
        try:
            above = path.split(b"/")[:-1]
            for depth in range(1, len(above) + 1):
                directory = b"/".join(above[:depth])
                if directory not in made:
                    made.add(directory)
                    _make_directory(_below(directory), owner)
            source = os.open(name, os.O_RDONLY | os.O_NOFOLLOW, dir_fd=asked.stage)
            _copy(source, _below(path), mode, owner)
            os.close(source)
        except OSError as failed:
            where = f"input file {path.decode()}: {failed.strerror}"
            raise OSError(failed.errno, where) from failed


def _below(path: bytes) -> bytes:
    return PLACE.encode() + b"/" + path


def _make_directory(path: bytes, owner: int) -> None:
    os.mkdir(path, 0o755)
    if owner >= 0:
        os.chown(path, owner, owner)


def _copy(source: int, path: bytes, mode: int, owner: int) -> None:
    """Copy a file: by reference where the file system can do that, else within the kernel."""
    target = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    try:
        while os.copy_file_range(source, target, _CHUNK):
            pass
    except OSError as refused:
        if refused.errno not in _NO_DIRECT_COPY:
            raise
        while os.sendfile(target, source, None, _CHUNK):  # None: at its own position
            pass
    if owner >= 0:
        os.fchown(target, owner, owner)
    os.close(target)
