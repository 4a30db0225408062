"""Memory, CPU and descriptors of an agent: `scripts/bench agent [--jobs 200]`, 3 minutes.

`scripts/bench agent --cpu N` prints something else: see `scripts/local/job_cpu.py`.

A deployment of its own on this machine and one agent with that many slots. An empty poll takes 20
s, as with SQS. The agent is looked at idle, for half a minute, then with every slot taken by a
`sleep` that says a line at its start and one at its end, and again idle for half a minute when all
have ended.

RSS counts a page in every process that has it, PSS shares it out. Beside the agent and its state
service there is the launcher's process, from which slots are forked, and the one that shims are
forked from; a job adds its sandbox's init, its shim, and itself.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from datetime import datetime
from pathlib import Path
from statistics import median
from typing import Any

from joblane import Client, Submission
from joblane.deployment.names import PLATFORM
from scripts.local import keeping
from scripts.local.cloud import Cloud, running_cloud
from scripts.local.job_cpu import measure_cpu
from scripts.local.weight import Weight, below, weigh

IDLE_S = 30.0
SLEEP_S = 60
BATCH = 100
LOAD_S = 5.0
"""Seconds from the last start to the measurement."""
SQS_POLL_S = 20
"""The local emulator otherwise answers empty polls after 4 s, so that agents end sooner."""
REST_S = 15.0
"""An agent is idle after 10 s, and then releases memory."""


def parts(agent: int) -> dict[str, Weight]:
    """Measure an agent's processes by role."""
    found = {"agent": Weight(), "state service": Weight(), "others": Weight()}
    for pid in below(agent):
        try:
            command = (Path("/proc") / str(pid) / "cmdline").read_bytes()
        except OSError:
            continue
        name = "agent" if pid == agent else "others"
        name = "state service" if b"ec2_agent.state" in command else name
        found[name] += weigh(pid)
    return found


def main() -> int:
    """Print the figures; 1 if a job was lost, ran twice or lacks output."""
    parser = argparse.ArgumentParser(prog="scripts/bench agent", description=__doc__)
    parser.add_argument("--jobs", type=int, default=200)
    parser.add_argument("--cpu", type=int, metavar="N", help="CPU time a job, over N jobs of 0 ms")
    parser.add_argument("--json", action="store_true", help="with --cpu: print one JSON object")
    arguments = parser.parse_args()
    keeping.RUN_DIR.parent.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=keeping.RUN_DIR.parent) as scratch:
        run = Path(scratch) / "run"
        if arguments.cpu is not None:
            with running_cloud(run) as cloud:
                return measure_cpu(cloud, arguments.cpu, as_json=arguments.json)
        # Compiles what has not been, as infra/agent/install.sh does: a process that compiles a
        # module keeps memory of it, and `joblane agent` takes -OO where it finds such bytecode.
        for options in ((), ("-OO",)):
            command = [sys.executable, *options, "-c", "import ec2_agent.command_line"]
            subprocess.run(command, check=True)
        with running_cloud(run, longest_poll_s=SQS_POLL_S) as cloud:
            return _measure_memory(cloud, arguments.jobs)


def _measure_memory(cloud: Cloud, jobs: int) -> int:
    with (
        Client(cloud.url, cloud.token()) as client,
        Client(cloud.url, cloud.token(PLATFORM)) as platform,
    ):
        platform.set_queue("default", {"run_jobs": True, "threads": jobs, "cluster_threads": None})
        agent = cloud.start_agent("bench", threads=jobs).pid
        print(f"load {os.getloadavg()[0]:.1f}, {os.cpu_count()} CPUs")
        time.sleep(5)
        _idle(agent, "idle")
        return _busy(client, platform, agent, jobs)


def _idle(agent: int, when: str) -> None:
    before = parts(agent)
    time.sleep(IDLE_S)
    after = parts(agent)
    _show(when, after)
    both = after["agent"] + after["state service"]
    spent = both.cpu_s - before["agent"].cpu_s - before["state service"].cpu_s
    print(
        f"agent and state service: {both.rss_mb:.1f} MB RSS, {both.pss_mb:.1f} MB PSS, "
        f"{spent / IDLE_S:.2%} of a core over {IDLE_S:.0f} s"
    )


def _busy(client: Client, platform: Client, agent: int, count: int) -> int:
    before = sum(parts(agent).values(), Weight())
    began = time.monotonic()
    body: Submission = {"command": ["sh", "-c", f"echo begin; sleep {SLEEP_S}; echo end"]}
    ids: list[str] = []
    for start in range(0, count, BATCH):
        entries = client.submit_batch([body] * min(BATCH, count - start))
        ids += [entry.job.id for entry in entries if entry.job]
    print(f"{count} jobs accepted in {time.monotonic() - began:.1f} s")
    while (running := platform.agent("bench").running) < count:
        if time.monotonic() - began > SLEEP_S:
            print(f"only {running} of {count} run at once")
            return 1
        time.sleep(0.2)
    time.sleep(LOAD_S)
    weighed = parts(agent)
    _show(f"with {count} jobs", weighed)
    more = sum(weighed.values(), Weight())
    print(
        f"a job: {(more.pss_mb - before.pss_mb) / count:.2f} MB PSS in "
        f"{(more.processes - before.processes) / count:.1f} processes"
    )
    jobs: list[Any] = [client.wait(job_id, 3 * SLEEP_S).data for job_id in ids]
    print(f"all ran {_measure_start(jobs):.1f} s after the first was accepted")
    states = Counter(job["state"] for job in jobs)
    twice = sum(job["epoch"] != 1 for job in jobs)
    outputs = ["".join(each.text for each in client.logs(i, follow=True)) for i in ids]
    whole = outputs.count("begin\nend\n")
    late = [job["usage"]["wall_s"] - SLEEP_S for job in jobs if job["usage"]]
    print(
        f"ended: {dict(states)}; run more than once: {twice}; with both lines of output: "
        f"{whole}; longer than their sleep by {median(late):.2f} s at the median, "
        f"{max(late):.2f} s at most"
    )
    time.sleep(REST_S)
    _idle(agent, "idle again")
    return 0 if states == {"completed": count} == {"completed": whole} and not twice else 1


def _measure_start(jobs: list[Any]) -> float:
    """Seconds from the first acceptance to the last claim, by the jobs' timelines.

    The agent's own count of its running jobs is written with its heartbeats only.
    """
    steps = [step for job in jobs for step in job["timeline"]]
    times = [(step["state"], datetime.fromisoformat(step["at"])) for step in steps]
    last = max(at for state, at in times if state == "active")
    return (last - min(at for _, at in times)).total_seconds()


def _show(when: str, found: dict[str, Weight]) -> None:
    for name, weight in found.items():
        print(
            f"{when:>14}: {name:<13} {weight.rss_mb:7.1f} MB RSS, {weight.pss_mb:6.1f} MB PSS, "
            f"{weight.processes:3} processes, {weight.threads:3} threads, "
            f"{weight.descriptors:4} descriptors"
        )


if __name__ == "__main__":
    sys.exit(main())
