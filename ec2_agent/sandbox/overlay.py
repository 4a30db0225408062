"""Gives each slot inodes of its own: read-only overlay file systems over the root that slots share.

File locks, inotify and dnotify belong to an inode. On an inode that two jobs share, each sees which
programs the other starts, and both can signal by locks. An overlay has inodes of its own for the
files of its lower layers; their pages stay shared.

    launcher's root (tmpfs: /etc, empty directories)  --overlay--  /
      /usr and other trees, bound                     --overlay--  /usr and so on
      the host's /dev, bound where no slot sees it    --overlay--  six files of it, bound in /dev
"""

import os

from ec2_agent.sandbox import kernel
from ec2_agent.sandbox.steps import Steps

ROOT = "/tmp"  # noqa: S108 - the launcher's own, empty
"""Where a new root is put together."""

BUNDLES, BUNDLE = "/opt/joblane/bundles", "/opt/joblane/type"
"""In the launcher's root, the directory of all bundles; in a slot, the one bundle that its job has.
"""

_SECOND, _DEVICES = "/dev/shm", "/work"  # noqa: S108 - as above
"""Mounts in the launcher's root, which slots unmount. The first is empty: without a writable layer,
the kernel wants two lower ones. The second is the host's /dev."""

_OPENED_FIRST = (
    "/bin/sh",
    "/etc/ld.so.cache",
    "/lib/aarch64-linux-gnu/libc.so.6",
    "/lib/ld-linux-aarch64.so.1",
    "/lib/x86_64-linux-gnu/libc.so.6",
    "/lib64/ld-linux-x86-64.so.2",
    "/lib64/libc.so.6",
)
"""What most programs open at their start, on Debian, Ubuntu and Amazon Linux. A new overlay has
looked up nothing yet, and what it has need not be looked up while a job starts."""

_READ_ONLY = kernel.MS_RDONLY | kernel.MS_NOSUID
_TREE = _READ_ONLY | kernel.MS_NODEV


class Overlays:
    """What slots need to mount their overlays."""

    __slots__ = ("_devices", "_opened_first", "_overlays")

    def __init__(self, devices_tree: int, devices: tuple[str, ...], mounted: list[str]) -> None:
        """Prepare the launcher's root; raises OSError if the kernel refuses one of the overlays.

        `devices_tree` is a detached copy of the host's /dev, `devices` are the paths of those that
        jobs have, `mounted` the paths of everything that is mounted in the launcher's root.
        """
        self._devices = devices
        # Most are of other systems, and a lookup that finds nothing takes as long.
        self._opened_first = tuple(path for path in _OPENED_FIRST if os.path.exists(path))  # noqa: PTH110
        # A mount on a single file cannot be covered; it is left out, since it would be shared. Of
        # the bundles a slot has one at most.
        others = (path for path in mounted if path not in {"/", BUNDLES})
        trees = [path for path in others if os.path.isdir(path)]  # noqa: PTH112 - no pathlib here
        places = (
            ("/", ROOT, _TREE),
            *((tree, ROOT + tree, _TREE) for tree in trees),
            (_DEVICES, _DEVICES, _READ_ONLY | kernel.MS_NOEXEC),
        )
        self._overlays = places
        done: list[str] = []
        needed = 0
        try:
            kernel.mount("none", _SECOND, "tmpfs", _TREE)
            done.append(_SECOND)
            kernel.attach(devices_tree, _DEVICES)
            done.append(_DEVICES)
            for lower, target, flags in places:
                kernel.mount("overlay", target, "overlay", flags, _layers(lower))
                done.append(target)
            needed = 2  # what is tried out is unmounted again
        finally:
            for target in reversed(done[needed:]):
                kernel.unmount(target)

    def add_entry(self, made: Steps, bundle: str) -> None:
        """Add to make the root one with inodes that nobody else has, and to unmount the old one.

        It has the bundle of that name, if there is one.
        """
        own = ((f"{BUNDLES}/{bundle}", ROOT + BUNDLE, _TREE),) if bundle else ()
        for lower, target, flags in (*self._overlays, *own):
            made.add_mount("overlay", target, "overlay", flags, _layers(lower))
        for device in self._devices:
            source = device.replace("/dev", _DEVICES, 1)
            made.add_mount(source, ROOT + device, "", kernel.MS_BIND)
        made.add(f"chdir {ROOT}", "chdir", os.fsencode(ROOT))
        made.add("pivot_root", "pivot_root", b".", b".")  # as kernel.pivot_root
        made.add("unmount the old root", "umount2", b".", kernel.MNT_DETACH)
        made.add("chdir /", "chdir", b"/")
        for path in self._opened_first:
            made.add_attempt("faccessat", kernel.AT_FDCWD, os.fsencode(path), os.F_OK)


def add_shared_entry(made: Steps, bundle: str) -> None:
    """Add to let a process see the bundle of that name, if there is one, and no other one.

    For slots without overlays, after the clone of the launcher's mounts.
    """
    if bundle:
        made.add_mount(f"{BUNDLES}/{bundle}", BUNDLE, "", kernel.MS_BIND)
    made.add(f"unmount {BUNDLES}", "umount2", os.fsencode(BUNDLES), kernel.MNT_DETACH)


def _layers(lower: str) -> str:
    # A colon separates layers, a comma options.
    escaped = lower.replace("\\", "\\\\").replace(":", "\\:").replace(",", "\\,")
    return f"lowerdir={escaped}:{_SECOND}"
