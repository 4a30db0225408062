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
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from ec2_agent.sandbox import kernel
from ec2_agent.sandbox.overlay import BUNDLE, BUNDLES

Step = tuple[str | int | bytes, ...]

HOST_LINKS = ("/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
"""Links into /usr where /usr is merged, else directories that are bound as they are."""

ETC = (
    "/etc/ld.so.cache",
    "/etc/ld.so.conf",
    "/etc/ld.so.conf.d",
    "/etc/alternatives",
    "/etc/localtime",
    "/etc/mime.types",
    "/etc/protocols",
    "/etc/services",
    "/etc/ca-certificates.conf",
    "/etc/ssl/certs",
    "/etc/ssl/openssl.cnf",
    "/etc/pki/tls/certs",
    "/etc/pki/tls/cert.pem",
    "/etc/pki/tls/openssl.cnf",
    "/etc/pki/ca-trust/extracted",
    "/etc/crypto-policies",
)
"""Files that programs need on Debian, Ubuntu and Amazon Linux; none identifies the host."""

DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty")
"""The last one is whatever terminal the caller's session has: of a job, one that it made itself."""

OWN_DIRECTORIES = ("/dev/pts", "/dev/shm", "/etc", BUNDLE, "/proc", "/tmp", "/var/tmp", "/work")  # noqa: S108
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
_READ_ONLY = kernel.ATTR_RDONLY | kernel.ATTR_NOSUID | kernel.ATTR_NODEV
_READ_ONLY_DEVICE = kernel.ATTR_RDONLY | kernel.ATTR_NOSUID | kernel.ATTR_NOEXEC


class SandboxHost(NamedTuple):
    """Facts about the host that the plan depends on."""

    links: dict[str, str]
    """Of HOST_LINKS, those that are symbolic links, and where they point."""
    directories: frozenset[str]
    """Of HOST_LINKS, ETC and the programs, those that are directories."""
    files: frozenset[str]
    """Of ETC, those that are files."""


def look(programs: tuple[Path, ...]) -> SandboxHost:
    """Collect the facts about this host."""
    links: dict[str, str] = {}
    directories: set[str] = set()
    files: set[str] = set()
    for path in ("/usr", *HOST_LINKS, *ETC, *map(str, programs)):
        if path in HOST_LINKS and Path(path).is_symlink():
            links[path] = os.readlink(path)  # noqa: PTH115 - the text, not a path made of it
            continue
        try:
            mode = Path(path).stat().st_mode
        except OSError:
            continue
        (directories if stat.S_ISDIR(mode) else files).add(path)
    return SandboxHost(links, frozenset(directories), frozenset(files))


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
    bundles: Path | None = None,
) -> list[Step]:
    """Return the steps that build the root; raises ValueError for a tree that cannot be shown.

    `programs` are absolute paths of directories, shown at the same place. `resolvers` are DNS
    servers. Without privileges the kernel lets a user namespace mount a /proc of its own only
    where another one is in sight; the slot's comes to lie on top of it. `bundles` is a directory
    that slots do not see, but for one directory in it.
    """
    plan = _Plan(host)
    for path in OWN_DIRECTORIES:
        plan.directory(path)
    if not privileged:
        plan.steps.append(("bind", "/proc", "/proc", _READ_ONLY | kernel.ATTR_NOEXEC))
    plan.steps.extend(("link", path, target) for path, target in host.links.items())
    for path in ("/usr", *HOST_LINKS):
        if path in host.directories:
            plan.show(path)
    for path in ETC:
        if path in host.directories or path in host.files:
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
