"""What running jobs use, as a heartbeat carries it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from ec2_agent.presence.usage import RunningProcesses, UsageReader, used_below
from joblane.state.stats import JobStats, decode_stats, encode_stats

MIB = 1024 * 1024
BURN = """
import os, time
held = bytearray(64 << 20)
if os.fork() == 0:
    while time.process_time() < 0.3: pass
    print('burnt', flush=True)
    time.sleep(60)
os.wait()
"""


def test_processes_are_summed_with_all_below_them():
    with subprocess.Popen([sys.executable, "-c", BURN], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert b"burnt\n" == process.stdout.readline()
        used = used_below(process.pid)
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text()
        for pid in [*map(int, children.split()), process.pid]:
            os.kill(pid, 9)
    assert used is not None
    assert used.cpu_s >= 0.29
    assert used.memory_bytes > 64 * MIB


def test_a_process_that_has_ended_has_no_figures(tmp_path: Path):
    assert used_below(1, tmp_path) is None
    reader = UsageReader(lambda: 0.0)
    assert {} == reader.read([RunningProcesses("A", 1, None, lambda: None)])
    assert {} == reader.read([RunningProcesses("A", 1, tmp_path, lambda: None)])


def test_cpus_are_the_mean_since_the_heartbeat_before(tmp_path: Path):
    now = [100.0]
    reader = UsageReader(lambda: now[0])

    def read(epoch: int, cpu_s: float, memory: int) -> dict[str, JobStats]:
        (tmp_path / "cpu.stat").write_text(f"usage_usec {round(cpu_s * 1e6)}\n")
        (tmp_path / "memory.current").write_text(f"{memory + 4 * MIB}\n")
        (tmp_path / "memory.stat").write_text(f"anon 1\ninactive_file {4 * MIB}\n")
        return reader.read([RunningProcesses("A", epoch, tmp_path, lambda: None)])

    assert {} == read(1, 5.0, MIB)
    now[0] += 10
    assert {"A": JobStats(1.5, 3)} == read(1, 20.0, 2 * MIB + 1)
    now[0] += 10
    assert {} == read(2, 1.0, MIB)  # another attempt


@pytest.mark.parametrize(
    "used", [JobStats(0.0, 0), JobStats(655.35, 0xFF_FFFF), JobStats(1.5, 70_000)]
)
def test_figures_come_back_as_they_were(used: JobStats):
    encoded = encode_stats({"B": used}, ("A", "B"), 100, turn=3)
    assert encoded is not None
    assert {"B": used} == decode_stats(encoded, ("A", "B"))


def test_figures_take_no_more_than_their_room():
    stats = {job: JobStats(1, 1) for job in "ABC"}
    for room in range(40):
        encoded = encode_stats(stats, "ABC", room, turn=0)
        assert len("stats") + len(encoded or b"") <= max(room, len("stats"))
    assert encode_stats({"A": JobStats(9999, 1 << 30)}, "A", 99, 0) == bytes((0, *[255] * 5))
