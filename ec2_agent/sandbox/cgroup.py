"""cgroup v2: the cgroups of sandboxes, their limits and their counters.

    <parent>/joblane-<block>            memory.max of all jobs, which leaves the host its reserve
    <parent>/joblane-<block>/<slot>     limits of one job, its init included
    <parent>/shims                      shims, if the parent is configured

The parent is the configured cgroup, which systemd has delegated; otherwise the agent's own cgroup
if it is delegated; otherwise, for root, the top one. A cgroup that enables controllers for its
children cannot contain processes, so the processes of a delegated parent are first moved to a
child named `others`. For the same reason a service that restarts while its jobs run needs a
separate cgroup for them: systemd starts the main process in the service's own.
"""

import contextlib
import os
import re
import select
import time
from collections.abc import Iterable
from pathlib import Path

from ec2_agent.sandbox import limits
from ec2_agent.sandbox.limits import LauncherCgroup
from ec2_agent.sandbox.model import SandboxLimits, SandboxRefused, Usage

WANTED = ("cpu", "cpuset", "io", "memory", "pids")
VACATED = "others"
SHIMS = "shims"
ROOM = "joblane-"

NEEDED = frozenset({"cpu", "memory", "pids"})
"""Required for isolation `full`. Without cpuset or io, only jobs with such limits are refused."""

Write = tuple[str, str]
"""A file of a cgroup, and the text to write to it."""

FIX = (
    "boot with systemd.unified_cgroup_hierarchy=1, or start the agent as a systemd service "
    "with Delegate=yes"
)


def writes(
    settled: SandboxLimits, launcher: LauncherCgroup, disks: tuple[str, ...] = ()
) -> tuple[Write, ...]:
    """Return the files and texts to write for these (checked) limits.

    `disks` are those of the work directory, beside the launcher's.
    """
    result: list[Write] = [("memory.oom.group", "1")]
    if (launcher.path / "memory.swap.max").exists():  # a kernel without swap has no such file
        result.append(("memory.swap.max", "0"))
    if settled.memory_mb is not None:
        result.append(("memory.max", str(settled.memory_mb << 20)))
    if settled.pids is not None:
        result.append(("pids.max", str(settled.pids + 1)))  # the init is one of them
    if settled.cpus is not None:
        period = limits.CPU_PERIOD_US
        result.append(("cpu.max", f"{round(settled.cpus * period)} {period}"))
    if settled.cores is not None:
        result.append(("cpuset.cpus", settled.cores))
    if settled.io_bps is not None:
        rates = f"rbps={settled.io_bps} wbps={settled.io_bps}"
        all_disks = dict.fromkeys((*launcher.disks, *disks))
        result.extend(("io.max", f"{disk} {rates}") for disk in all_disks)
    return tuple(result)


def apply(leaf: Path, changes: Iterable[Write]) -> None:
    """Write limits to an existing cgroup; raises SandboxRefused with the first that fails."""
    for file, text in changes:
        try:
            (leaf / file).write_text(text)
        except OSError as failed:
            raise SandboxRefused(f"{file} = {text} was refused by the kernel: {failed}") from failed


def make_launcher_cgroup(
    block: int, given: Path | None, stands_on: tuple[Path, ...]
) -> LauncherCgroup:
    """Make the cgroup of the launcher that has the block; raises SandboxRefused with the reason.

    It is made below `given`, unless that is None. Leftovers of a dead launcher of the same block
    are removed. io.max applies to the disks of the files in `stands_on`.
    """
    parent = find_parent() if given is None else check_parent(given)
    path = parent / f"{ROOM}{block}"
    try:
        if (parent / "cgroup.type").exists():
            _vacate(parent)
        enable(parent)
        if path.exists():
            remove(path)
        path.mkdir()
        controllers = enable(path)
        memory_mb = _limit_memory(path) if "memory" in controllers else 0
    except OSError as failed:
        raise SandboxRefused(f"cgroup {path} cannot be used: {failed}; {FIX}") from failed
    if not controllers >= NEEDED:
        path.rmdir()
        lacking = ", ".join(sorted(NEEDED - controllers))
        raise SandboxRefused(
            f"isolation full needs the cgroup v2 controllers {lacking}, which {parent} does not "
            f"have; {FIX}"
        )
    effective = path / "cpuset.cpus.effective"
    if effective.exists():
        cores = frozenset(limits.parse_cores(effective.read_text().strip()))
    else:
        cores = frozenset(os.sched_getaffinity(0))
    return LauncherCgroup(path, controllers, cores, disks_of(stands_on), memory_mb)


def _limit_memory(path: Path) -> int:
    """Limit what all jobs of a launcher may have together. Returns the limit in MiB.

    Without it, jobs whose limits add up to more than the host's memory would make the kernel
    choose what to kill among all processes of the host.
    """
    total_kb = _parse_keyed(Path("/proc/meminfo").read_text().replace(":", "").replace(" kB", ""))
    limit = limits.jobs_memory_mb(total_kb["MemTotal"] >> 10)
    for above in path.parents:
        outer = _number(_read(above / "memory.max"))  # "max", or no such file at the top
        if outer is not None:
            limit = min(limit, outer >> 20)
    (path / "memory.max").write_text(str(limit << 20))
    return limit


def find_parent() -> Path:
    """Return the cgroup below which a launcher may make its own."""
    top = mount_point(Path("/proc/self/mountinfo").read_text())
    if top is None:
        raise SandboxRefused(f"isolation full needs cgroup v2, which is not mounted here; {FIX}")
    own = top / own_path(Path("/proc/self/cgroup").read_text()).lstrip("/")
    if _is_delegated(own):
        return own
    if os.geteuid() == 0:
        return top
    raise SandboxRefused(
        f"isolation full needs a cgroup of this user's own, and {own} is not delegated; "
        "start with `systemd-run --user --scope -p Delegate=yes ...`, or as root"
    )


def check_parent(path: Path) -> Path:
    """Return the path if cgroups may be made there; raises SandboxRefused with the reason."""
    if not path.is_dir():
        raise SandboxRefused(f"cgroup {path} does not exist; its unit must be active")
    if not (path / "cgroup.controllers").exists():
        raise SandboxRefused(f"{path} is not a cgroup (v2)")
    if not _is_delegated(path):
        raise SandboxRefused(f"cgroup {path} is not delegated; its unit needs Delegate=yes")
    return path


def shims_home(parent: Path) -> Path:
    """Make the cgroup of the shims, outside the agent's unit, which systemd may kill."""
    path = parent / SHIMS
    path.mkdir(exist_ok=True)
    return path


def launcher_cgroups(parent: Path) -> dict[int, Path]:
    """Return the launchers' cgroups by their blocks."""
    found = {path.name.removeprefix(ROOM): path for path in parent.glob(f"{ROOM}*")}
    return {int(block): path for block, path in found.items() if block.isdecimal()}


def mount_point(mountinfo: str) -> Path | None:
    """Find where cgroup v2 is mounted, in the text of /proc/self/mountinfo."""
    for line in mountinfo.splitlines():
        fields, _, rest = line.partition(" - ")
        if rest.startswith("cgroup2 "):
            return Path(re.sub(r"\\(\d{3})", lambda m: chr(int(m[1], 8)), fields.split()[4]))
    return None


def own_path(cgroup: str) -> str:
    """Find the v2 cgroup of this process in the text of /proc/self/cgroup."""
    for line in cgroup.splitlines():
        if line.startswith("0::"):
            return line[3:]
    return "/"


def _is_delegated(path: Path) -> bool:
    for attribute in ("trusted.delegate", "user.delegate"):
        with contextlib.suppress(OSError):
            if os.getxattr(path, attribute) == b"1":
                return True
    return os.geteuid() != 0 and path.stat().st_uid == os.geteuid()


def _vacate(path: Path) -> None:
    """Move the processes of a delegated cgroup into a child, until none is left."""
    procs = path / "cgroup.procs"
    while pids := procs.read_text().split():
        (path / VACATED).mkdir(exist_ok=True)
        for pid in pids:
            try:
                (path / VACATED / "cgroup.procs").write_text(pid)
            except ProcessLookupError:
                continue  # it ended meanwhile


def enable(path: Path) -> frozenset[str]:
    """Enable the wanted controllers of a cgroup for its children."""
    has = set((path / "cgroup.controllers").read_text().split())
    control = path / "cgroup.subtree_control"
    for name in WANTED:
        if name in has:
            with contextlib.suppress(OSError):  # an unavailable one must not affect the others
                control.write_text("+" + name)
    return frozenset(control.read_text().split()) & frozenset(WANTED)


def sweep(path: Path) -> None:
    """Kill and remove a cgroup and its children; raises OSError if that fails."""
    with contextlib.suppress(FileNotFoundError):  # systemd removes the cgroups of a failed unit
        (path / "cgroup.kill").write_text("1")
        remove(path)


def remove(path: Path) -> None:
    """Remove a cgroup and its children, where processes end but are not killed; raises OSError."""
    for leaf in (*(child for child in path.iterdir() if child.is_dir()), path):
        wait_empty(leaf, 2.0)
        leaf.rmdir()


def wait_empty(leaf: Path, timeout_s: float) -> None:
    """Wait until no process is in the cgroup; raises TimeoutError.

    The kernel reports a change of cgroup.events as an exceptional condition (POLLPRI), even if it
    happened between the read and the poll.
    """
    ends = time.monotonic() + timeout_s
    with (leaf / "cgroup.events").open() as events:
        poll = select.poll()
        poll.register(events, select.POLLPRI)
        while "populated 1" in events.read():
            if not poll.poll(max(0.0, ends - time.monotonic()) * 1000):
                raise TimeoutError(f"processes of {leaf} do not end")
            events.seek(0)


def disks_of(paths: tuple[Path, ...], sys_dev: Path = Path("/sys/dev/block")) -> tuple[str, ...]:
    """Return `major:minor` of the whole disks under these paths, each once.

    io.max takes disks, not partitions. File systems without a block device are skipped.
    """
    disks: set[str] = set()
    for path in paths:
        device = path.stat().st_dev
        entry = sys_dev / f"{os.major(device)}:{os.minor(device)}"
        if os.major(device) == 0 or not entry.exists():
            continue
        real = entry.resolve()
        whole = real.parent if (real / "partition").exists() else real
        disks.add((whole / "dev").read_text().strip())
    return tuple(sorted(disks))


def cpu_seconds(leaf: Path) -> float | None:
    """Read the CPU time of a cgroup."""
    used = _parse_keyed(_read(leaf / "cpu.stat")).get("usage_usec")
    return None if used is None else used / 1e6


def memory_bytes(leaf: Path) -> int | None:
    """Read the memory that a cgroup has now, without the page cache that the kernel can drop."""
    now = _number(_read(leaf / "memory.current"))
    if now is None:
        return None
    return max(0, now - _parse_keyed(_read(leaf / "memory.stat")).get("inactive_file", 0))


def oom_killed(leaf: Path) -> bool:
    """Whether the OOM killer has killed the job of a cgroup; False if that has been removed."""
    return _parse_keyed(_read(leaf / "memory.events")).get("oom_kill", 0) > 0


def add_counters(leaf: Path, usage: Usage, cpu_before: float) -> Usage:
    """Complete a job's usage with the counters of its cgroup, as far as this kernel has them.

    `cpu_before` is the CPU time of the cgroup when the job began.
    """
    cpu_s, io = cpu_seconds(leaf), _read(leaf / "io.stat")
    pids = _number(_read(leaf / "pids.peak"))
    return Usage(
        cpu_s=usage.cpu_s if cpu_s is None else max(0.0, cpu_s - cpu_before),
        wall_s=usage.wall_s,
        peak_memory_bytes=_number(_read(leaf / "memory.peak")),
        io_read_bytes=_io_sum(io, "rbytes"),
        io_write_bytes=_io_sum(io, "wbytes"),
        pids_peak=None if pids is None else max(0, pids - 1),  # without the init
    )


def _read(path: Path) -> str | None:
    try:
        return path.read_text()
    except OSError:
        return None


def _number(text: str | None) -> int | None:
    return int(text) if text and text.strip().isdigit() else None


def _parse_keyed(text: str | None) -> dict[str, int]:
    pairs = (line.split() for line in (text or "").splitlines())
    return {pair[0]: int(pair[1]) for pair in pairs if len(pair) == 2}


def _io_sum(text: str | None, key: str) -> int | None:
    if text is None:
        return None
    return sum(int(number) for number in re.findall(rf"\b{key}=(\d+)", text))
