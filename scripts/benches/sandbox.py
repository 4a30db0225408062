"""Start time of a sandbox, compared with bubblewrap and OCI runtimes: `scripts/bench sandbox`.

Every line is one run of /usr/bin/true from the call to the end, in one interleaved run in random
order, so that a busy host is busy for all; compare the ratios, not the microseconds. Ours ends
when the ending is in the caller's hand and every process of the job is dead.

With `--isolation full` the cgroup and its limits are part of ours. On a host without cgroup v2
that takes the test machine:
`.venv/bin/python tests/kernel/vm.py .venv/bin/python scripts/benches/sandbox.py --starts 40`.
"""

import argparse
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from ec2_agent.sandbox.launcher import Launcher
from ec2_agent.sandbox.model import Isolation, SandboxLimits, Spec
from ec2_agent.sandbox.probe import probe
from scripts.local.weight import memory_kib

TRUE = "/usr/bin/true"
WARM_UP = 10
PAUSE_S = 0.015
"""Seconds between starts, so that the clean-up of one does not slow the next."""
SLOTS = 8

INSIDE_TMP = "/tmp"  # noqa: S108 - the sandbox's own
BWRAP = (
    *("bwrap", "--unshare-user", "--unshare-pid", "--unshare-net", "--unshare-ipc"),
    *("--unshare-uts", "--unshare-cgroup", "--die-with-parent", "--new-session"),
    *("--uid", "1000", "--gid", "1000", "--ro-bind", "/usr", "/usr"),
    *("--symlink", "usr/bin", "/bin", "--symlink", "usr/lib", "/lib"),
    *("--symlink", "usr/lib64", "/lib64", "--tmpfs", INSIDE_TMP, "--tmpfs", "/work"),
    *("--chdir", "/work", "--proc", "/proc", "--dev", "/dev", TRUE),
)
NO_LIMITS = SandboxLimits()


def main() -> None:
    """Print the table, the sustained rate and the memory."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--starts", type=int, default=300, help="runs of each line")
    parser.add_argument("--seconds", type=float, default=4.0, help="length of the sustained run")
    arguments = parser.parse_args()
    isolation = probe().isolation
    if isolation is None:
        sys.exit("this host cannot isolate anything; see python -m ec2_agent.sandbox probe")
    print(
        f"isolation {isolation}, {os.cpu_count()} CPUs, load {os.getloadavg()[0]:.1f}, "
        f"kernel {os.uname().release}, {arguments.starts} starts each"
    )
    with tempfile.TemporaryDirectory() as room:
        _starts(isolation, arguments.starts, Path(room))
    _measure_sustained(isolation, arguments.seconds)
    _memory(isolation)


def _starts(isolation: Isolation, starts: int, room: Path) -> None:
    null = os.open(os.devnull, os.O_RDWR)
    with (
        Launcher(isolation=isolation, slots=SLOTS) as pooled,
        Launcher(isolation=isolation, slots=0) as unpooled,
    ):
        runs: dict[str, Callable[[], None]] = {
            "posix_spawn": lambda: _spawn((TRUE,), null),
            "bubblewrap": lambda: _spawn(BWRAP, null),
            "crun": _oci("crun", room, null),
            "runc": _oci("runc", room, null),
            "joblane, slots ready": lambda: _ours(pooled, null),
            "joblane, none ready": lambda: _ours(unpooled, null),
        }
        for name in tuple(runs):
            try:
                runs[name]()
            except (OSError, RuntimeError) as failed:
                print(f"not run: {name}: {failed}")
                del runs[name]
        times: dict[str, list[float]] = {name: [] for name in runs}
        for round_ in range(WARM_UP + starts):
            for name in random.sample(tuple(runs), len(runs)):
                time.sleep(PAUSE_S)
                began = time.perf_counter()
                runs[name]()
                if round_ >= WARM_UP:
                    times[name].append(time.perf_counter() - began)
    base = times.get("bubblewrap")
    print(f"{'':22}{'p50 us':>9}{'p95 us':>9}{'x bwrap p50':>13}{'x bwrap p95':>13}")
    for name, taken in times.items():
        row = f"{name:22}{_at(taken, 50) * 1e6:9.0f}{_at(taken, 95) * 1e6:9.0f}"
        if base:
            row += "".join(f"{_at(taken, p) / _at(base, p):13.2f}" for p in (50, 95))
        print(row)


def _at(values: Sequence[float], percent: int) -> float:
    return sorted(values)[len(values) * percent // 100]


def _spawn(argv: tuple[str, ...], null: int) -> None:
    actions = [(os.POSIX_SPAWN_DUP2, null, fd) for fd in (0, 1, 2)]
    pid = os.posix_spawnp(argv[0], argv, os.environ, file_actions=actions)
    status = os.waitpid(pid, 0)[1]
    if status:
        raise RuntimeError(f"{argv[0]} ended with {os.waitstatus_to_exitcode(status)}")


def _ours(launcher: Launcher, null: int) -> None:
    spec = Spec((TRUE,), {}, NO_LIMITS)
    ending = launcher.start(spec, stdout=null, stderr=null, line=null).wait()
    if ending.exit_code != 0:
        raise RuntimeError(str(ending))


def _oci(runtime: str, room: Path, null: int) -> Callable[[], None]:
    """Return a run of an OCI runtime with the same /usr, limits on memory and processes."""
    if shutil.which(runtime) is None:
        return lambda: _spawn((runtime,), null)
    bundle = room / runtime
    (bundle / "rootfs").mkdir(parents=True)
    for name in ("usr", "proc", "dev", "tmp", "work"):
        (bundle / "rootfs" / name).mkdir()
    for name in ("bin", "lib", "lib64"):
        (bundle / "rootfs" / name).symlink_to(f"usr/{name}")
    subprocess.run([runtime, "spec"], cwd=bundle, check=True)
    path = bundle / "config.json"
    config = json.loads(path.read_text())
    config["process"].update(terminal=False, args=[TRUE], noNewPrivileges=True)
    config["process"]["capabilities"] = {}
    config["root"]["readonly"] = True
    config["mounts"] = [m for m in config["mounts"] if m["destination"] in ("/proc", "/dev")]
    config["mounts"].append(
        {"destination": "/usr", "type": "bind", "source": "/usr", "options": ["rbind", "ro"]}
    )
    limits = {"memory": {"limit": 512 << 20}, "pids": {"limit": 1024}}
    config["linux"]["resources"] = limits
    path.write_text(json.dumps(config))
    argv = (runtime, "--root", str(room / "state"), "run", "--bundle", str(bundle), runtime)
    return lambda: _spawn(argv, null)


def _measure_sustained(isolation: Isolation, seconds: float) -> None:
    """Start as many as possible from two threads for a while, refill included."""
    null = os.open(os.devnull, os.O_RDWR)
    for clients in (1, 2):
        with (
            Launcher(isolation=isolation, slots=16) as launcher,
            ThreadPoolExecutor(clients) as pool,
        ):
            ours = partial(_ours, launcher, null)
            done = sum(pool.map(partial(_repeat, ours), [seconds] * clients))
        print(f"sustained, {clients} at a time: {done / seconds:.0f} starts a second")
    count = _repeat(lambda: _spawn(BWRAP, null), seconds / 2)
    print(f"for comparison bubblewrap, 1 at a time: {count / seconds * 2:.0f}")


def _repeat(run: Callable[[], None], seconds: float) -> int:
    """Run it again and again for so long; returns how often it ran."""
    ends = time.monotonic() + seconds
    count = 0
    while time.monotonic() < ends:
        run()
        count += 1
    return count


def _memory(isolation: Isolation) -> None:
    """Print the private memory of slots."""
    with Launcher(isolation=isolation, slots=SLOTS) as launcher:
        children = Path(f"/proc/{launcher.pid}/task/{launcher.pid}/children")
        time.sleep(2.0 if isolation == "namespaces" else 8.0)
        slots = children.read_text().split()
        memory = [memory_kib(int(pid)) for pid in slots]
        private = [each["Private_Clean"] + each["Private_Dirty"] for each in memory]
        print(
            f"memory: {max(private)} KiB private in the largest of {len(slots)} slots, "
            f"{memory_kib(launcher.pid)['Rss']} KiB resident in the launcher process"
        )


if __name__ == "__main__":
    main()
