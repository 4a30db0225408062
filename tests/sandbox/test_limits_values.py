"""Limits as values: what is valid, the errors for what is not, the cgroup files written."""

import contextlib
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from ec2_agent.sandbox import cgroup, limits
from ec2_agent.sandbox.model import HostLacks, SandboxLimits, SandboxRefused, Usage

ALL = frozenset(cgroup.WANTED)
CORES = frozenset(range(8))
FULL = limits.LauncherCgroup(Path("/nowhere"), ALL, CORES, ("259:0",))
BARE = None

whole = st.integers(min_value=1, max_value=1 << 20)
core_sets = st.sets(st.integers(min_value=0, max_value=7), min_size=1)
sound = st.builds(
    SandboxLimits,
    memory_mb=st.none() | st.integers(limits.MEMORY_FLOOR_MB, 1 << 20),
    cpus=st.none() | st.floats(0.01, 64),
    pids=st.none() | whole,
    cores=st.none() | core_sets.map(lambda cores: ",".join(map(str, sorted(cores)))),
    io_bps=st.none() | st.integers(1024, 1 << 40),
    tmp_mb=st.none() | whole,
)


def ranges(cores: set[int]) -> str:
    """Write cores as the kernel does, neighbours joined."""
    text, ordered = [], sorted(cores)
    while ordered:
        last = first = ordered.pop(0)
        while ordered and ordered[0] == last + 1:
            last = ordered.pop(0)
        text.append(str(first) if first == last else f"{first}-{last}")
    return ",".join(text)


@given(st.sets(st.integers(min_value=0, max_value=5000), min_size=1))
def test_cores_are_read_as_the_kernel_writes_them(cores: set[int]) -> None:
    assert limits.parse_cores(ranges(cores)) == tuple(sorted(cores))


@given(st.text(max_size=12))
def test_any_text_is_cores_or_is_refused(text: str) -> None:
    with contextlib.suppress(SandboxRefused):
        cores = limits.parse_cores(text)
        assert cores
        assert list(cores) == sorted(set(cores))
        assert set(text) <= set("0123456789-,")


@given(st.lists(st.integers(0, 9), min_size=2, max_size=4))
def test_cores_out_of_order_are_refused(cores: list[int]) -> None:
    assume(cores != sorted(set(cores)))
    with pytest.raises(SandboxRefused, match="twice or out of order"):
        limits.parse_cores(",".join(map(str, cores)))


@given(sound)
def test_sound_limits_pass_where_all_can_be_applied(asked: SandboxLimits) -> None:
    limits.check(asked, FULL)


@given(sound)
def test_without_cgroups_only_what_can_be_held_is_accepted(asked: SandboxLimits) -> None:
    needing = (asked.memory_mb, asked.cpus, asked.cores, asked.io_bps)
    if any(value is not None for value in needing):
        with pytest.raises(SandboxRefused, match="isolation full"):
            limits.check(asked, BARE)
    else:
        limits.check(asked, BARE)


@given(sound, st.sampled_from(["memory", "cpu", "cpuset", "io", "pids"]))
def test_a_missing_controller_refuses_its_limit_alone(asked: SandboxLimits, missing: str) -> None:
    host = limits.LauncherCgroup(Path("/nowhere"), ALL - {missing}, CORES, FULL.disks)
    value = {
        "memory": asked.memory_mb, "cpu": asked.cpus, "cpuset": asked.cores,
        "io": asked.io_bps, "pids": asked.pids,
    }[missing]  # fmt: skip
    if value is None:
        limits.check(asked, host)
    else:
        with pytest.raises(SandboxRefused, match=f"controller {missing} is not available"):
            limits.check(asked, host)


@pytest.mark.parametrize(
    "asked",
    [
        SandboxLimits(memory_mb=0),
        SandboxLimits(memory_mb=-1),
        SandboxLimits(memory_mb=15),
        SandboxLimits(memory_mb=True),
        SandboxLimits(memory_mb=64.5),  # type: ignore[arg-type]
        SandboxLimits(memory_mb="64"),  # type: ignore[arg-type]
        SandboxLimits(cpus=0),
        SandboxLimits(cpus=-1),
        SandboxLimits(cpus=float("nan")),
        SandboxLimits(cpus=float("inf")),
        SandboxLimits(cpus=0.009),
        SandboxLimits(cpus=True),
        SandboxLimits(pids=0),
        SandboxLimits(io_bps=0),
        SandboxLimits(tmp_mb=0),
        SandboxLimits(cores=""),
        SandboxLimits(cores="8"),
        SandboxLimits(cores="0-8"),
        SandboxLimits(cores="²"),
        SandboxLimits(cores=" 1"),
        SandboxLimits(cores="1\n"),
    ],
    ids=str,
)
def test_what_is_no_limit_is_refused_by_name(asked: SandboxLimits) -> None:
    name = next(
        field for field in ("memory_mb", "cpus", "pids", "cores", "io_bps", "tmp_mb")
        if getattr(asked, field) is not None
    )  # fmt: skip
    with pytest.raises(SandboxRefused, match=name):
        limits.check(asked, FULL)


def test_io_needs_a_disk() -> None:
    host = limits.LauncherCgroup(Path("/nowhere"), ALL, CORES, ())
    with pytest.raises(SandboxRefused, match="not on a block device"):
        limits.check(SandboxLimits(io_bps=1 << 20), host)


@given(sound, sound)
def test_what_was_asked_for_wins_over_the_default(
    defaults: SandboxLimits, asked: SandboxLimits
) -> None:
    merged = limits.merge(defaults, asked)
    for name in ("memory_mb", "cpus", "pids", "cores", "io_bps"):
        wanted = getattr(asked, name)
        assert getattr(merged, name) == (getattr(defaults, name) if wanted is None else wanted)
    if asked.tmp_mb is not None:
        assert merged.tmp_mb == asked.tmp_mb
    elif defaults.tmp_mb is not None:
        assert merged.tmp_mb == min(defaults.tmp_mb, (merged.memory_mb or 1 << 21) // 2)


@pytest.mark.parametrize(
    ("total_mb", "jobs_mb"), [(460, 230), (960, 480), (3800, 3288), (64_000, 57_600)]
)
def test_jobs_leave_the_host_a_reserve(total_mb: int, jobs_mb: int) -> None:
    assert limits.jobs_memory_mb(total_mb) == jobs_mb


@given(sound)
def test_every_limit_that_is_set_is_written(asked: SandboxLimits) -> None:
    room = limits.LauncherCgroup(Path("/nowhere"), ALL, CORES, ("259:0", "259:4"))
    written = cgroup.writes(asked, room)
    files = [file for file, _ in written]
    expected = ["memory.oom.group"]
    expected += ["memory.max"] if asked.memory_mb is not None else []
    expected += ["pids.max"] if asked.pids is not None else []
    expected += ["cpu.max"] if asked.cpus is not None else []
    expected += ["cpuset.cpus"] if asked.cores is not None else []
    expected += ["io.max", "io.max"] if asked.io_bps is not None else []
    assert files == expected
    values = dict(written)
    if asked.cpus is not None:
        quota, period = map(int, values["cpu.max"].split())
        assert quota >= 1000  # the kernel takes no less
        assert abs(quota / period - asked.cpus) < 0.001
    if asked.pids is not None:
        assert int(values["pids.max"]) == asked.pids + 1


def test_swap_is_closed_where_the_kernel_has_it(tmp_path: Path) -> None:
    room = limits.LauncherCgroup(tmp_path, ALL, CORES, ())
    assert ("memory.swap.max", "0") not in cgroup.writes(SandboxLimits(), room)
    (tmp_path / "memory.swap.max").touch()
    assert ("memory.swap.max", "0") in cgroup.writes(SandboxLimits(), room)


def test_the_cgroup_mount_is_found_by_type() -> None:
    info = (
        "22 1 0:20 / /sys/fs/cgroup rw - tmpfs tmpfs rw\n"
        "23 22 0:21 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n"
        "24 22 0:22 / /sys/fs/a\\040b rw - cgroup2 cgroup2 rw\n"
    )
    assert cgroup.mount_point(info) == Path("/sys/fs/a b")
    assert cgroup.mount_point(info.replace("cgroup2", "cgroup")) is None
    assert cgroup.own_path("9:cpu:/x\n0::/system.slice/a.service\n") == "/system.slice/a.service"


def test_a_partition_is_throttled_by_its_disk(tmp_path: Path) -> None:
    device = tmp_path.stat().st_dev
    disk = tmp_path / "devices" / "nvme0n1"
    partition = disk / "nvme0n1p1"
    partition.mkdir(parents=True)
    (disk / "dev").write_text("259:0\n")
    (partition / "dev").write_text("259:1\n")
    (partition / "partition").write_text("1\n")
    blocks = tmp_path / "block"
    blocks.mkdir()
    (blocks / f"{os.major(device)}:{os.minor(device)}").symlink_to(partition)
    assert cgroup.disks_of((tmp_path, tmp_path), blocks) == ("259:0",)


def test_figures_of_a_cgroup_that_is_gone_are_unknown(tmp_path: Path) -> None:
    usage = Usage(cpu_s=0.3, wall_s=2.0)
    assert cgroup.add_counters(tmp_path / "gone", usage, 0.1) == usage
    assert not cgroup.oom_killed(tmp_path / "gone")


def test_figures_are_read_from_the_files(tmp_path: Path) -> None:
    for name, text in {
        "cpu.stat": "usage_usec 1500000\nuser_usec 1\n",
        "memory.events": "low 0\nhigh 0\nmax 3\noom 1\noom_kill 2\noom_group_kill 1\n",
        "memory.peak": "67108864\n",
        "pids.peak": "65\n",
        "io.stat": "259:0 rbytes=10 wbytes=20 rios=1\n254:0 rbytes=1 wbytes=2 rios=1\n253:0 \n",
    }.items():
        (tmp_path / name).write_text(text)
    usage = cgroup.add_counters(tmp_path, Usage(cpu_s=0.3, wall_s=2.0), 0.25)
    assert usage == Usage(1.25, 2.0, 67108864, 11, 22, 64)
    assert cgroup.oom_killed(tmp_path)


@pytest.mark.parametrize("own", [FULL, BARE, replace(FULL, controllers=frozenset({"memory"}))])
@pytest.mark.parametrize(
    "asked",
    [
        {"memory_mb": 64},
        {"cpus": 0.5},
        {"cores": "0"},
        {"io_bps": 2048},
        {"pids": 9},
    ],
    ids=lambda asked: next(iter(asked)),
)
def test_what_a_host_lacks_is_what_it_refuses_to_limit(
    own: limits.LauncherCgroup | None, asked: dict[str, Any]
) -> None:
    (name,) = asked
    lacks = name in limits.lacking(own)
    with pytest.raises(HostLacks) if lacks else contextlib.nullcontext():
        limits.check(SandboxLimits(**asked), own)
