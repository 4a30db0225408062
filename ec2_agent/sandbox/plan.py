"""The mount plan: the contents of the read-only root of every sandbox.

A pure function of a few facts about the host returns a list of steps, executed in order:

    ("tmpfs", path, options)        an empty file system
    ("dir", path, mode)
    ("file", path, content)
    ("link", path, target)
    ("copy", path, source)               a copy of the host's file or directory
    ("bind", path, source, attributes)   a copy of the host's mounts at `source`, attributes
                                         (kernel.ATTR_*) put on every mount of it

Jobs see only the host files that are a "bind" or a "copy" here, all read-only. Each slot mounts its
own /proc and writable directories (/tmp, /work, /dev/shm). Files of /etc are copied, since a file
that is bound could not be given to each slot as an inode of its own (overlay.py).
"""

import os
import stat
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from ec2_agent.sandbox import kernel
from ec2_agent.sandbox.overlay import BUNDLE, BUNDLES
from ec2_agent.sandbox.slot import CGROUPS, PROC_FILES

Step = tuple[str | int | bytes, ...]

HOST_LINKS = ("/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
"""Links into /usr where /usr is merged, else directories that are bound as they are."""

ETC = (
    "ImageMagick-*",
    "R",
    "alternatives",
    "ca-certificates.conf",
    "crypto-policies",
    "fonts",
    "java",
    "java-*",
    "ld.so.cache",
    "ld.so.conf",
    "ld.so.conf.d",
    "localtime",
    "mime.types",
    "perl",
    "php",
    "php.d",
    "php.ini",
    "pki/ca-trust/extracted",
    "pki/java",
    "pki/tls/cert.pem",
    "pki/tls/certs",
    "pki/tls/openssl.cnf",
    "protocols",
    "python3*",
    "services",
    "ssl/certs",
    "ssl/openssl.cnf",
    "texmf",
)
"""Names below /etc that programs of Debian, Ubuntu and Amazon Linux need: of these, jobs have what
every user of the host may read. None identifies the host; private keys of /etc/ssl are left out."""

DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty")
"""The last one is whatever terminal the caller's session has: of a job, one that it made itself."""

OWN_DIRECTORIES = ("/dev/pts", "/dev/shm", "/etc", BUNDLE, "/proc", "/tmp", "/var", "/work")  # noqa: S108
"""Directories of the sandbox itself, empty in the shared root."""

_STANDARD = {
    "fd": "/proc/self/fd",
    "stdin": "/proc/self/fd/0",
    "stdout": "/proc/self/fd/1",
    "stderr": "/proc/self/fd/2",
    "ptmx": "pts/ptmx",
}
_ETC_LINKS = {"/etc/mtab": "/proc/self/mounts", "/etc/os-release": "../usr/lib/os-release"}
"""Which file systems there are, and which distribution this is: as hosts have it."""
_OWN_ETC = {
    "/etc/passwd": b"root:x:0:0:root:/root:/usr/sbin/nologin\n"
    b"job:x:1000:1000:job:/work:/bin/sh\nnobody:x:65534:65534:nobody:/:/usr/sbin/nologin\n",
    "/etc/group": b"root:x:0:\njob:x:1000:\nnogroup:x:65534:\n",
    "/etc/hosts": b"127.0.0.1 localhost job\n::1 localhost\n",
    "/etc/hostname": b"job\n",
    "/etc/nsswitch.conf": b"passwd: files\ngroup: files\nhosts: files dns\n",
}
_SECOND_TMP = "/var/tmp"  # noqa: S108 - the sandbox's own
"""A link to /tmp, unless programs lie below it: then it holds them, and is read-only."""
OWN_PATHS = frozenset({*_OWN_ETC, *_ETC_LINKS, "/etc/resolv.conf"})
"""Files of /etc that each sandbox has of its own."""
_READ_ONLY = kernel.ATTR_RDONLY | kernel.ATTR_NOSUID | kernel.ATTR_NODEV
_READ_ONLY_DEVICE = kernel.ATTR_RDONLY | kernel.ATTR_NOSUID | kernel.ATTR_NOEXEC


class SandboxHost(NamedTuple):
    """Facts about the host that the plan depends on."""

    links: dict[str, str]
    """Of HOST_LINKS, those that are symbolic links, and where they point."""
    directories: frozenset[str]
    """Of HOST_LINKS and the programs, those that are directories."""
    etc: tuple[str, ...]
    """Paths in /etc to copy; none is below another one."""
    left_out: tuple[str, ...] = ()
    """Paths in /etc that were asked for and are not copied, each with the reason."""


def look(
    programs: tuple[Path, ...], etc: tuple[str, ...] = (), root: Path = Path("/etc")
) -> SandboxHost:
    """Collect the facts about this host. `etc` are names below /etc beside those of ETC.

    /etc is read at `root`.
    """
    links: dict[str, str] = {}
    directories: set[str] = set()
    for path in ("/usr", *HOST_LINKS, *map(str, programs)):
        if path in HOST_LINKS and Path(path).is_symlink():
            links[path] = os.readlink(path)  # noqa: PTH115 - the text, not a path made of it
        elif Path(path).is_dir():
            directories.add(path)
    found: set[Path] = set()
    left_out: list[str] = []
    for name in (*ETC, *etc):
        paths = [path for path in root.glob(name) if str(path) not in OWN_PATHS]
        found.update(path for path in paths if _is_public(path))
        if name in etc:
            private = (path for path in paths if path not in found)
            left_out.extend(f"{path}: not every user may read it" for path in private)
            left_out.extend(() if paths else (f"{root / name}: nothing is there",))
    copied = (path for path in found if found.isdisjoint(path.parents))
    return SandboxHost(
        links, frozenset(directories), tuple(sorted(map(str, copied))), tuple(left_out)
    )


def _is_public(path: Path) -> bool:
    """Whether every user of the host may read a file or list a directory, through its links."""
    try:
        real = path.resolve(strict=True)
        if not all(above.stat().st_mode & stat.S_IXOTH for above in real.parents):
            return False
        mode = real.stat().st_mode
    except OSError:  # it is gone, or this agent has no right to look
        return False
    needed = stat.S_IROTH | stat.S_IXOTH if stat.S_ISDIR(mode) else stat.S_IROTH
    return (stat.S_ISDIR(mode) or stat.S_ISREG(mode)) and mode & needed == needed


class _Plan:
    """The steps so far, and the paths they created."""

    def __init__(self, host: SandboxHost) -> None:
        self.steps: list[Step] = [("tmpfs", "/", "size=64m,mode=755")]
        self._host = host
        self._made = {"/", *host.links}
        self._shown = list(host.links)  # what lies behind a link is shown where it points

    def directory(self, path: str) -> None:
        """Make a directory and its parents."""
        for place in (*reversed(PurePosixPath(path).parents), PurePosixPath(path)):
            if str(place) not in self._made:
                self._made.add(str(place))
                self.steps.append(("dir", str(place), 0o755))

    def show(self, path: str) -> None:
        """Bind the host's directory `path`, unless a tree that is already bound contains it."""
        if any(PurePosixPath(path).is_relative_to(tree) for tree in self._shown):
            return
        self.directory(path)
        self._shown.append(path)
        self.steps.append(("bind", path, path, _READ_ONLY))

    def copy(self, path: str) -> None:
        """Copy the host's file or directory `path`."""
        self.directory(str(PurePosixPath(path).parent))
        self.steps.append(("copy", path, path))


def make_plan(
    host: SandboxHost,
    programs: tuple[Path, ...] = (),
    resolvers: tuple[str, ...] = (),
    *,
    privileged: bool = True,
    cgroups: bool = False,
    proc: Mapping[str, bytes] | None = None,
    bundles: Path | None = None,
) -> list[Step]:
    """Return the steps that build the root; raises ValueError for a tree that cannot be shown.

    `programs` are absolute paths of directories, shown at the same place. `resolvers` are DNS
    servers. Without privileges the kernel lets a user namespace mount a /proc of its own only
    where another one is in sight; the slot's comes to lie on top of it. `cgroups` says whether each
    slot has a cgroup, `proc` are files that each has in /proc. `bundles` is a directory that
    slots do not see, but for one directory in it.
    """
    plan = _Plan(host)
    for path in (*OWN_DIRECTORIES, *((CGROUPS,) if cgroups else ())):
        plan.directory(path)
    plan.directory(PROC_FILES)
    plan.steps.extend(
        ("file", f"{PROC_FILES}/{name}", content) for name, content in (proc or {}).items()
    )
    if not any(program.is_relative_to(_SECOND_TMP) for program in programs):
        plan.steps.append(("link", _SECOND_TMP, "/tmp"))  # noqa: S108 - the sandbox's own
    if not privileged:
        plan.steps.append(("bind", "/proc", "/proc", _READ_ONLY | kernel.ATTR_NOEXEC))
    plan.steps.extend(("link", path, target) for path, target in host.links.items())
    for path in ("/usr", *HOST_LINKS):
        if path in host.directories:
            plan.show(path)
    for path in host.etc:
        plan.copy(path)
    for device in DEVICES:
        plan.steps += (("file", device, b""), ("bind", device, device, _READ_ONLY_DEVICE))
    plan.steps.extend(("link", "/dev/" + name, target) for name, target in _STANDARD.items())
    plan.steps.extend(("link", path, target) for path, target in _ETC_LINKS.items())
    plan.steps.extend(("file", path, content) for path, content in _OWN_ETC.items())
    lines = "".join(f"nameserver {address}\n" for address in resolvers)
    plan.steps.append(("file", "/etc/resolv.conf", lines.encode()))
    if bundles is not None:
        plan.directory(BUNDLES)
        plan.steps.append(("bind", BUNDLES, str(bundles), _READ_ONLY))
    for program in sorted(programs):
        _check_program(program, host, bundles)
        plan.show(str(program))
    return plan.steps


_TAKEN = ("/proc", "/sys", "/dev", "/etc", "/tmp", "/work", "/run", "/boot")  # noqa: S108


def _check_program(program: Path, host: SandboxHost, bundles: Path | None) -> None:
    hides = PurePosixPath(BUNDLE).is_relative_to(program)
    if bundles is not None and (hides or program.is_relative_to(PurePosixPath(BUNDLE).parent)):
        raise ValueError(f"programs: {program} lies where the bundles of job types are")
    if not program.is_absolute() or ".." in program.parts or program == Path("/"):
        raise ValueError(f"programs: {program} is not the absolute path of a directory below /")
    if any(program.is_relative_to(place) for place in _TAKEN):
        raise ValueError(f"programs: {program} lies where a sandbox has a directory of its own")
    if str(program) not in host.directories:
        raise ValueError(f"programs: {program} is not a directory of this host")
