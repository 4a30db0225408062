"""The values that cross the sandbox's door: what a job asks for and how it ended."""

import errno
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

Isolation = Literal["full", "namespaces"]
"""`full` adds cgroup v2 limits and accounting to what `namespaces` gives."""

Network = Literal["none", "egress", "host"]
"""`none` is a loopback of the job's own, `egress` a filtered way out, `host` no isolation."""


class SandboxRefused(Exception):
    """The sandbox cannot give what was asked for, so nothing was run.

    `reason` is a sentence an operator can act on: what was asked for, why this host cannot
    give it, what to change.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class HostShort(SandboxRefused):
    """The host lacks what a start needs, now; nothing was run, and the job is not at fault."""


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
"""What the kernel answers where something has run out that may come back."""


def refusal(code: int | None, reason: str) -> SandboxRefused:
    """Make the refusal for an error of the kernel's."""
    return HostShort(reason) if code in SHORT else SandboxRefused(reason)


class LauncherGone(SandboxRefused):
    """The launcher process has died: nothing can be started here any more, and nothing was run."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What a job may use. None means the launcher's default; a value is applied or refused."""

    memory_mb: int | None = None
    """MiB of memory, page cache and tmpfs files included; swap is always 0."""
    cpus: float | None = None
    """CPU seconds a second; 0.5 is half a core."""
    pids: int | None = None
    """Processes and threads of the job."""
    cores: str | None = None
    """The cores it may run on, as `0-2,5`: ascending, no core twice, all of them online."""
    io_bps: int | None = None
    """Bytes a second, read and written each, on the disks that the sandbox stands on."""
    tmp_mb: int | None = None
    """MiB that /work, /tmp and /dev/shm hold together."""


@dataclass(frozen=True, slots=True)
class Spec:
    """One job: the command, its surroundings and its limits."""

    argv: tuple[str, ...]
    env: Mapping[str, str] = field(repr=False)  # it may hold secrets
    limits: Limits
    network: Network = "none"
    timeout_s: float | None = None
    """Seconds from the start until the whole tree gets SIGTERM."""
    grace_s: float = 10.0
    """Seconds between that SIGTERM and the kill."""


@dataclass(frozen=True, slots=True)
class Usage:
    """What the job used, its descendants included. None: this host cannot tell."""

    cpu_s: float
    wall_s: float
    peak_memory_bytes: int | None = None
    io_read_bytes: int | None = None
    io_write_bytes: int | None = None
    pids_peak: int | None = None


@dataclass(frozen=True, slots=True)
class Ending:
    """How the job ended. At most one of `exit_code` and `signal` is set."""

    exit_code: int | None
    signal: int | None
    timed_out: bool
    oom_killed: bool
    stopped: bool
    error: str | None
    """Why the command could not be run (exit code 127 not found, 126 not executable)."""
    usage: Usage


@dataclass(frozen=True, slots=True)
class EgressPolicy:
    """Where a job with network `egress` may go.

    Link-local (the metadata services among them), loopback, private, shared, multicast and
    reserved ranges are refused from the start. Each item is an IPv4 network, as `10.1.0.0/16`.
    """

    allow: tuple[str, ...] = ()
    """Exceptions from the refused ranges; link-local and loopback cannot be excepted."""
    refuse: tuple[str, ...] = ()
    """More refused ranges: the VPC's own, when they are not private ones."""
    resolvers: tuple[str, ...] = ()
    """DNS servers, reachable on port 53 alone; empty means those of the host."""


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
    """What `probe` found, in the order an operator would repair it."""

    isolation: Isolation | None
    """The strongest isolation this process can have here; None when there is none."""
    features: tuple[Feature, ...]

    def as_json(self) -> list[dict[str, str | bool]]:
        """Give the features as plain dictionaries."""
        return [
            {"feature": f.name, "available": f.available, "detail": f.detail, "fix": f.fix}
            for f in self.features
        ]
