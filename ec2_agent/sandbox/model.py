"""Input and output of the sandbox: a job's spec, limits and ending, and errors."""

import errno
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Self

from ec2_agent.fields import fields_of, pick_known

Isolation = Literal["full", "namespaces"]
"""`full` adds cgroup v2 limits and accounting to what `namespaces` gives."""

Network = Literal["none", "egress", "host"]
"""`none` is a loopback of the job's own, `egress` a filtered way out, `host` no isolation."""


class SandboxRefused(Exception):
    """The sandbox cannot run the job as requested; nothing was run.

    `reason` is for operators: what was requested, why this host cannot provide it, what to change.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class HostShort(SandboxRefused):
    """The host temporarily lacks a resource; nothing was run."""


class DiskShort(HostShort):
    """The host's disk has no room for this job now; jobs that ask for less may be started."""


class HostLacks(SandboxRefused):
    """The host can never apply a limit that the job asks for; another host may. Nothing was run."""


SHORT = frozenset(
    {
        errno.EAGAIN,
        errno.EDQUOT,
        errno.EMFILE,
        errno.ENFILE,
        errno.ENOMEM,
        errno.ENOSPC,
        errno.ETOOMANYREFS,
    }
)
"""Kernel errors for resources that are exhausted and may become free."""


def refusal(code: int | None, reason: str) -> SandboxRefused:
    """Make the exception for an error of the kernel."""
    return HostShort(reason) if code in SHORT else SandboxRefused(reason)


class LauncherGone(SandboxRefused):
    """The launcher process has ended: nothing was run, and no job can be started here."""


@dataclass(frozen=True, slots=True)
class SandboxLimits:
    """Limits of a job. None means the launcher's default; a value is applied or refused."""

    memory_mb: int | None = None
    """MiB of memory, page cache and tmpfs files included; swap is always 0."""
    cpus: float | None = None
    """CPU seconds a second; 0.5 is half a core."""
    pids: int | None = None
    """Processes and threads of the job."""
    cores: str | None = None
    """The cores it may run on, as `0-2,5`: ascending, no core twice, all of them online."""
    io_bps: int | None = None
    """Bytes a second, read and written each, on the disks that the sandbox stands on, and on that
    of its work directory."""
    tmp_mb: int | None = None
    """MiB that /work, /tmp and /dev/shm hold together; without /work if `disk_mb` is set."""
    disk_mb: int | None = None
    """MiB that /work holds, on the host's disk; None: it is in memory, a part of `tmp_mb`."""


@dataclass(frozen=True, slots=True)
class Spec:
    """One job: the command, its surroundings and its limits."""

    argv: tuple[str, ...]
    env: Mapping[str, str] = field(repr=False)  # it may hold secrets
    limits: SandboxLimits
    secrets: tuple[str, ...] = ()
    """Variables of `env` whose values are hidden in what the job writes and says."""
    network: Network = "none"
    timeout_s: float | None = None
    """Seconds from the start until the whole tree gets SIGTERM."""
    grace_s: float = 10.0
    """Seconds between that SIGTERM and the kill."""
    bundle: str | None = None
    """Name of a directory of the launcher's bundles, which the job has at /opt/joblane/type."""
    stdin: int | None = None
    """Descriptor that the job reads as its standard input, opened for reading only and for this
    job alone, since its position is shared; None: /dev/null. A job that opens /dev/stdin needs the
    file's own mode to let it read."""
    stage: int | None = None
    """Descriptor of a directory with the job's input files and their `plan`: see staging.py."""
    keep_work: bool = False
    """Whether the holder gets /work, for reading it after the end: `Sandbox.work`."""


@dataclass(frozen=True, slots=True)
class Usage:
    """Resources that the job and its descendants used. None: not measured on this host."""

    cpu_s: float
    wall_s: float
    """Up to the end of the main process."""
    peak_memory_bytes: int | None = None
    io_read_bytes: int | None = None
    io_write_bytes: int | None = None
    pids_peak: int | None = None


@dataclass(frozen=True, slots=True)
class Ending:
    """How the job's process ended. At most one of `exit_code` and `signal` is set.

    The fields from `condition` on are what a shim adds (`ec2_agent/shim`).
    """

    exit_code: int | None
    signal: int | None
    timed_out: bool
    oom_killed: bool
    stopped: bool
    error: str | None
    """Why the command could not be run (exit code 127 not found, 126 not executable)."""
    usage: Usage
    left: bool = False
    """Whether processes still ran when the main one had ended by itself, and were stopped."""
    condition: str | None = None
    """The condition that the job named last."""
    records: int | None = None
    """Log records that the job has written."""
    output_bytes: int = 0
    """Bytes of output in them."""
    lease_lost: bool = False
    """Killed because its agent's lease was not renewed: another agent may run it now."""
    killed: bool = False
    """Whether the sandbox's init was killed."""
    failure: str | None = None
    """What the job itself said went wrong."""
    skip: str | None = None
    """Why the job does not apply here, as it said itself."""
    result: str | None = None
    """The result that the job gave, as JSON."""
    result_file: bool = False
    """Whether a longer result is in the file `result` of the job's directory."""
    silent: bool = False
    """Stopped because it wrote nothing on its line for its `heartbeat_timeout_s`."""

    def encode(self) -> dict[str, Any]:
        """Return an exit record."""
        return fields_of(self) | {"usage": fields_of(self.usage)}

    @classmethod
    def decode(cls, record: dict[str, Any]) -> Self:
        """Inverse of `encode`; ignores further keys."""
        usage = Usage(**pick_known(Usage, record["usage"]))
        return cls(**{**pick_known(cls, record), "usage": usage})


@dataclass(frozen=True, slots=True)
class EgressPolicy:
    """Where a job with network `egress` may go, and how much it may use.

    Link-local (the metadata services among them), loopback, private, shared, multicast and
    reserved ranges are refused from the start. Each item is an IPv4 network, as `10.1.0.0/16`.
    """

    allow: tuple[str, ...] = ()
    """Exceptions from the refused ranges; link-local and loopback cannot be excepted."""
    refuse: tuple[str, ...] = ()
    """More refused ranges: the VPC's own, when they are not private ones."""
    resolvers: tuple[str, ...] = ()
    """DNS servers, reachable on port 53 alone; empty means those of the host."""
    jobs: int = 1
    """Jobs that may run at once: they share the host's table of connections."""
    mbps: int | None = None
    """Bandwidth of each job in Mbit/s, for what it sends and for what it receives; None: any."""


@dataclass(frozen=True, slots=True)
class Feature:
    """One thing a host can or cannot do for isolation."""

    name: str
    available: bool
    detail: str
    fix: str
    """What an operator has to change to get it; empty when available."""


@dataclass(frozen=True, slots=True)
class HostReport:
    """The result of `probe`, in the order in which to fix it."""

    isolation: Isolation | None
    """The strongest isolation this process can have here; None when there is none."""
    features: tuple[Feature, ...]

    def as_json(self) -> list[dict[str, str | bool]]:
        """Return the features as plain dictionaries."""
        return [
            {"feature": f.name, "available": f.available, "detail": f.detail, "fix": f.fix}
            for f in self.features
        ]
