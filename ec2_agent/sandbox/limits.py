"""Limits of a job: parse them, merge them with the defaults, check whether they can be applied.

A job is refused if one of its limits cannot be applied. Operators read the reason in the job's
timeline.
"""

import math
import re
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, fields, replace
from pathlib import Path

from ec2_agent.sandbox.model import HostLacks, SandboxLimits, SandboxRefused

HOST_RESERVE_MB = 512
"""Memory that jobs leave to the host, or a tenth of it if that is more: for the kernel, systemd,
the agent (80 MB) and the shims."""

MEMORY_FLOOR_MB = 16
"""The init of a sandbox takes 1 to 2 MiB, and Python does not start with less than this."""

CPU_PERIOD_US = 100_000
"""The kernel's default period of cpu.max; its smallest quota is 1000 us, so 0.01 of a core."""

_RANGE = re.compile(r"(\d{1,5})(?:-(\d{1,5}))?", re.ASCII)
_CONTROLLERS = {
    "memory_mb": "memory",
    "cpus": "cpu",
    "cores": "cpuset",
    "io_bps": "io",
    "pids": "pids",
}


@dataclass(frozen=True, slots=True)
class LauncherCgroup:
    """The cgroup of one launcher, below which each slot has one, and which limits it can apply."""

    path: Path
    controllers: AbstractSet[str]
    """cgroup v2 controllers that can be used below it."""
    cores: AbstractSet[int]
    """Online cores that the launcher may use."""
    disks: tuple[str, ...]
    """`major:minor` of the disks that io.max applies to."""
    memory_mb: int = 0
    """MiB that its jobs may have together."""


def merge(defaults: SandboxLimits, asked: SandboxLimits) -> SandboxLimits:
    """Return `asked` with unset limits replaced by the defaults.

    The default of `tmp_mb` is at most half of the memory, of which the files are a part: a write
    to a full /tmp then fails, and does not kill the job.
    """
    given = {f.name: getattr(asked, f.name) for f in fields(SandboxLimits)}
    merged = replace(defaults, **{name: v for name, v in given.items() if v is not None})
    if asked.tmp_mb is not None or merged.tmp_mb is None or merged.memory_mb is None:
        return merged
    return replace(merged, tmp_mb=max(1, min(merged.tmp_mb, merged.memory_mb // 2)))


def jobs_memory_mb(total_mb: int) -> int:
    """Return how much of a host's memory its jobs may have; on a small host, half of it."""
    return max(total_mb - max(HOST_RESERVE_MB, total_mb // 10), total_mb // 2)


def parse_cores(text: str) -> tuple[int, ...]:
    """Return the cores of a list such as `0-2,5`; raises SandboxRefused unless it is ascending."""
    cores: list[int] = []
    for part in text.split(","):
        match = _RANGE.fullmatch(part)
        if match is None:
            raise SandboxRefused(f"cores {text!r}: {part!r} is not a core or a range such as 0-2")
        first = int(match[1])
        last = first if match[2] is None else int(match[2])
        if last < first:
            raise SandboxRefused(f"cores {text!r}: the range {part} is descending")
        if cores and first <= cores[-1]:
            raise SandboxRefused(f"cores {text!r}: {first} comes twice or out of order")
        cores.extend(range(first, last + 1))
    return tuple(cores)


def check(limits: SandboxLimits, own: LauncherCgroup | None) -> None:
    """Raise SandboxRefused unless every limit that is set is valid and can be applied.

    `own` is the launcher's cgroup, None with isolation `namespaces`.
    """
    _check_whole(limits.memory_mb, "memory_mb", MEMORY_FLOOR_MB, 1 << 30)
    _check_whole(limits.pids, "pids", 1, 1 << 22)  # the kernel's PID_MAX_LIMIT
    _check_whole(limits.io_bps, "io_bps", 1024, 1 << 50)
    _check_whole(limits.tmp_mb, "tmp_mb", 1, 1 << 30)
    _check_whole(limits.disk_mb, "disk_mb", 1, 1 << 30)
    cpus = limits.cpus
    if cpus is not None and not (
        not isinstance(cpus, bool) and math.isfinite(cpus) and 0.01 <= cpus <= 1 << 13
    ):
        raise SandboxRefused(f"cpus {cpus}: must be a number between 0.01 and 8192")
    if limits.cores is not None:
        missing = [core for core in parse_cores(limits.cores) if own and core not in own.cores]
        if own and missing:
            has = ",".join(map(str, sorted(own.cores)))
            raise HostLacks(
                f"cores {limits.cores!r}: core {missing[0]} is not one of this host's ({has})"
            )
    for name, controller in _CONTROLLERS.items():
        if getattr(limits, name) is not None:
            _need(name, controller, own)
    if limits.io_bps is not None and own and not own.disks and limits.disk_mb is None:
        raise HostLacks(
            "io_bps cannot be applied: the sandbox's files are not on a block device; "
            "run the job without io_bps, with disk_mb, or on an instance whose root is a disk"
        )


def lacking(own: LauncherCgroup | None) -> tuple[str, ...]:
    """Names of the limits that cannot be applied, whatever a job asks for."""
    return tuple(
        name
        for name, controller in _CONTROLLERS.items()
        if (name != "pids" if own is None else controller not in own.controllers)
    )


def _need(limit: str, controller: str, own: LauncherCgroup | None) -> None:
    if own is None:
        if limit == "pids":
            return  # it is RLIMIT_NPROC that counts
        raise HostLacks(
            f"{limit} cannot be applied with isolation namespaces: it needs cgroup v2; "
            "start the agent with isolation full, or submit the job without this limit"
        )
    if controller not in own.controllers:
        raise HostLacks(
            f"{limit} cannot be applied: the cgroup v2 controller {controller} is not available "
            "to the agent; `joblane doctor` shows how to delegate it"
        )


def _check_whole(value: int | None, name: str, low: int, high: int) -> None:
    if value is not None and (type(value) is not int or not low <= value <= high):
        raise SandboxRefused(f"{name} {value!r}: must be a whole number from {low} to {high}")
