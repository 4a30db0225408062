"""The root that all sandboxes of a launcher process share: built once, by its plan (plan.py)."""

import _socket as socket  # see wire.py
import errno
import os
import stat

from ec2_agent.sandbox import kernel, overlay, slot

TYPE_CHECKING = False  # see wire.py
if TYPE_CHECKING:
    from typing import Any

_ANYBODY_LISTS = stat.S_IROTH | stat.S_IXOTH


def build_root(config: "dict[str, Any]") -> int:
    """Execute the mount plan in a new mount namespace, and pivot into the new root.

    Returns the host's /dev, detached; -1 without root, which the kernel lets see it only whole.
    """
    flags = kernel.CLONE_NEWNS | kernel.CLONE_NEWUTS
    uid, gid = os.getuid(), os.getgid()
    if not config["own_uids"]:
        flags |= kernel.CLONE_NEWUSER
    kernel.unshare(flags)
    if not config["own_uids"]:
        slot.map_ids(uid, gid)
    kernel.mount("none", "/", "", kernel.MS_REC | kernel.MS_PRIVATE)
    plan = config["plan"]
    devices = kernel.open_tree("/dev", submounts=False) if config["own_uids"] else -1
    # All mounts are copied before the new root hides a directory of the old one.
    trees = {step[1]: kernel.open_tree(step[2]) for step in plan if step[0] == "bind"}
    for step in plan:
        _carry_out(step, trees)
    kernel.pivot_root(overlay.ROOT)
    kernel.mount(
        "none",
        "/",
        "",
        kernel.MS_REMOUNT | kernel.MS_BIND | kernel.MS_RDONLY | kernel.MS_NOSUID | kernel.MS_NODEV,
    )
    socket.sethostname("job")
    return devices


def prepare_overlays(config: "dict[str, Any]", devices: int) -> overlay.Overlays:
    """Prepare the overlays of slots; raises OSError if this host has none for this process."""
    if devices < 0:
        raise OSError(errno.EPERM, "only root can give jobs inodes of their own")
    try:
        with open(os.open("self/mountinfo", os.O_RDONLY, dir_fd=slot.HOST_PROC), "rb") as file:
            mounted = sorted({_unescape(line.split()[4]) for line in file})
        return overlay.Overlays(devices, config["devices"], mounted)
    finally:
        os.close(devices)


def _unescape(path: bytes) -> str:
    """Decode a path of mountinfo, which has spaces and the like as three octal digits."""
    first, *others = path.split(b"\\")
    return os.fsdecode(first + b"".join(bytes((int(o[:3], 8),)) + o[3:] for o in others))


def _carry_out(step: "tuple[Any, ...]", trees: dict[str, int]) -> None:
    """Execute one step of the plan (the kinds of steps: plan.py)."""
    kind, path, *rest = step
    target = overlay.ROOT + path
    try:
        if kind == "tmpfs":
            kernel.mount("tmpfs", target, "tmpfs", kernel.MS_NOSUID | kernel.MS_NODEV, rest[0])
        elif kind == "dir":
            os.mkdir(target, rest[0])
        elif kind == "link":
            os.symlink(rest[0], target)
        elif kind == "file":
            with open(target, "wb") as file:
                file.write(rest[0])
        elif kind == "copy":
            copy(rest[0], target)
        else:
            tree = trees[path]
            kernel.set_mount_attributes(tree, rest[1])
            kernel.attach(tree, target)
            os.close(tree)
    except OSError as failed:
        raise OSError(failed.errno, f"{kind} {path}: {failed.strerror}") from failed


def copy(source: str, target: str) -> None:
    """Copy a file, or a directory with all that is in it, without following links below it.

    What not every user of the host may read is left out: jobs have less rights than a user.
    """
    mode = os.stat(source).st_mode
    if stat.S_ISDIR(mode):
        if mode & _ANYBODY_LISTS != _ANYBODY_LISTS:
            return
        os.mkdir(target)
        with os.scandir(source) as entries:
            for entry in entries:
                inner = f"{target}/{entry.name}"
                if entry.is_symlink():
                    os.symlink(os.readlink(entry.path), inner)
                elif entry.is_dir() or entry.is_file():
                    copy(entry.path, inner)
    elif mode & stat.S_IROTH:
        with open(source, "rb") as original, open(target, "wb") as written:
            written.write(original.read())
    else:
        return
    os.chmod(target, mode & 0o777)
