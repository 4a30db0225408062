"""Files of /proc that tell a job about the machine that it has, in place of the kernel's.

The kernel's tell about the host and all that runs on it. These tell the job's limits, and nothing
changes in them while it runs (docs/decisions/0150). How they come to lie in /proc: slot.py.
"""

import os
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from ec2_agent.sandbox import wire
from ec2_agent.sandbox.machine import Machine

_CONTROLLERS = (
    *("cpuset", "cpu", "cpuacct", "blkio", "memory", "devices", "freezer", "net_cls"),
    *("perf_event", "net_prio", "hugetlb", "pids", "rdma", "misc"),
)
"""Those of Linux 6.1. The JVM (up to 23) looks here whether cgroup v2 is what limits it."""

_NO_DATA = "0 kB"
_MEMORY = (
    *("Buffers", "Cached", "SwapCached", "Active", "Inactive", "Active(anon)", "Inactive(anon)"),
    *("Active(file)", "Inactive(file)", "Unevictable", "Mlocked", "SwapTotal", "SwapFree"),
    *("Dirty", "Writeback", "AnonPages", "Mapped", "Shmem", "KReclaimable", "Slab"),
    *("SReclaimable", "SUnreclaim", "KernelStack", "PageTables"),
)
_VIRTUAL = ("nr_free_pages", "pgpgin", "pgpgout", "pswpin", "pswpout", "pgfault", "pgmajfault")

_OF_THIS_HOST = frozenset({"apicid", "initial apicid", "microcode", "cpu MHz", "bugs"})
"""Lines of cpuinfo that tell about this host, and not about this type of CPU."""
_SHORT = frozenset({"processor", "vendor_id", "model name", "CPU implementer", "CPU part"})
_LONGEST = 24_000
"""Bytes of cpuinfo, up to which each processor has all its lines, 1 to 2 KB with its flags. What is
longer has only the lines of _SHORT: each slot gets a copy, and all files travel in one message."""
_MOST_PROCESSORS = 448
"""More would not fit into that message (`wire.PACKET`)."""


def same_for_all() -> dict[str, bytes]:
    """Return the files that are the same for all jobs, by their names."""
    cgroups = (f"{name}\t0\t1\t1\n" for name in _CONTROLLERS)
    texts = {
        "cgroups": "#subsys_name\thierarchy\tnum_cgroups\tenabled\n" + "".join(cgroups),
        "filesystems": "".join(
            f"nodev\t{name}\n" for name in ("proc", "tmpfs", "cgroup2", "overlay")
        ),
        "loadavg": "0.00 0.00 0.00 1/1 1\n",
        "vmstat": "".join(f"{name} 0\n" for name in _VIRTUAL),
    }
    return {name: text.encode() for name, text in texts.items()}


@dataclass(frozen=True, slots=True)
class HostProcessors:
    """What the files need to know of the host, which any job could find out."""

    fields: Mapping[str, str]
    """The first processor's lines of cpuinfo: what kind of CPU it is."""
    booted: int
    """When the kernel was started, in seconds since 1970: ps computes from it when processes were.
    """
    memory_kb: int
    """The host's memory, for jobs without a limit."""

    @classmethod
    def read(cls) -> "HostProcessors":
        """Read them from this host."""
        first = Path("/proc/cpuinfo").read_text(encoding="utf-8").split("\n\n")[0]
        pairs = (line.split(":", 1) for line in first.splitlines() if ":" in line)
        booted = time.time() - time.clock_gettime(time.CLOCK_BOOTTIME)
        memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") >> 10
        return cls({key.strip(): value.strip() for key, value in pairs}, int(booted), memory)

    def files_of(self, machine: Machine) -> tuple[bytes, ...]:
        """Return the files that tell about a machine, in the order of `wire.MACHINE_FILES`."""
        count = min(machine.processors, _MOST_PROCESSORS)
        memory_kb = self.memory_kb if machine.memory_mb is None else machine.memory_mb << 10
        files = {
            "meminfo": _meminfo(memory_kb),
            "cpuinfo": self._cpuinfo(count),
            "stat": _stat(count, self.booted),
        }
        return tuple(files[name].encode() for name in wire.MACHINE_FILES)

    def _cpuinfo(self, count: int) -> str:
        of_kind = {k: text for k, text in self.fields.items() if k not in _OF_THIS_HOST}
        text = "".join(_processor(of_kind, each, count) for each in range(count))
        if len(text) <= _LONGEST:
            return text
        short = {key: of_kind[key] for key in of_kind if key in _SHORT}
        return "".join(_processor(short, each, count) for each in range(count))


def _processor(of_kind: Mapping[str, str], number: int, count: int) -> str:
    own = {"processor": number, "core id": number, "cpu cores": count, "siblings": count}
    own["physical id"] = 0
    return "".join(f"{key}\t: {own.get(key, text)}\n" for key, text in of_kind.items()) + "\n"


def _meminfo(total_kb: int) -> str:
    all_of_it = f"{total_kb} kB"
    lines = dict.fromkeys(("MemTotal", "MemFree", "MemAvailable"), all_of_it)
    lines |= dict.fromkeys(_MEMORY, _NO_DATA)
    lines |= {"CommitLimit": all_of_it, "Committed_AS": _NO_DATA}
    lines |= {"HugePages_Total": "0", "HugePages_Free": "0", "Hugepagesize": "2048 kB"}
    return "".join(f"{name + ':':16}{text:>11}\n" for name, text in lines.items())


def _stat(count: int, booted: int) -> str:
    times = " 0" * 10
    processors = "".join(f"cpu{number}{times}\n" for number in range(count))
    rest = f"intr 0\nctxt 0\nbtime {booted}\nprocesses 1\nprocs_running 1\nprocs_blocked 0\n"
    return f"cpu {times}\n{processors}{rest}softirq 0{times}\n"
