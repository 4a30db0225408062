"""CPU time of a job in an agent's processes: `scripts/bench agent --cpu N [--json]`, a minute.

N jobs of `/usr/bin/true` on one agent of four slots, isolation `namespaces`, after some that warm
it up. Each part's processes are in a cgroup of their own, which counts those that have ended too:

* `agent`: the agent's process.
* `state`: the state service.
* `launcher`: the launcher, the slots that it makes, and in them the jobs. `job` is the jobs' own
  part of it, from their usage.
* `shims`: the process that forks shims, and the shims.

A busy host makes the figures larger, by a fifth perhaps: compare two trees in turn.
"""

import json
import os
import time
from collections import Counter
from pathlib import Path
from typing import Any

from joblane import Client, Submission
from joblane.deployment.names import PLATFORM
from scripts.local.cloud import Cloud
from scripts.local.cpu_groups import cpu_groups
from scripts.local.weight import below

SLOTS = 4
WARM_UP = 40
"""As many as make the agent open its connections, and read what it reads once."""
BATCH = 100
SETTLE_S = 1.0
"""A job has ended for its reader before its message is deleted."""
TIMEOUT_S = 600
NAMES = ("agent", "state", "launcher", "shims")
_OF = (
    (b"ec2_agent.state", "state"),
    (b"ec2_agent.shim", "shims"),
    (b"joblane-sandbox", "launcher"),  # what zygote.py shows
)


def measure_cpu(cloud: Cloud, count: int, *, as_json: bool) -> int:
    """Print the milliseconds of CPU time a job, by part; 1 if a job was lost or ran twice."""
    with (
        Client(cloud.url, cloud.token()) as client,
        Client(cloud.url, cloud.token(PLATFORM)) as platform,
    ):
        platform.set_queue("default", {"run_jobs": True, "threads": SLOTS, "cluster_threads": None})
        agent = cloud.start_agent("bench", threads=SLOTS, isolation="namespaces").pid
        _run(client, WARM_UP)
        with cpu_groups(_by_part(agent)) as groups:
            before, began = groups.seconds(), time.monotonic()
            jobs = _run(client, count)
            wall_s = time.monotonic() - began - SETTLE_S
            spent = {name: s - before[name] for name, s in groups.seconds().items()}
    states = Counter(job["state"] for job in jobs)
    spent["job"] = sum(job["usage"]["cpu_s"] for job in jobs if job["usage"])
    whole = sum(spent[name] for name in NAMES)
    figures = {name: round(s * 1000 / count, 3) for name, s in (*spent.items(), ("all", whole))}
    if as_json:
        load = round(os.getloadavg()[0], 1)
        print(json.dumps({"jobs": count, "load": load, "wall_s": round(wall_s, 1), **figures}))
    else:
        print(f"{count} jobs in {wall_s:.1f} s, load {os.getloadavg()[0]:.1f}; ms of CPU a job:")
        for name, value in figures.items():
            print(f"{name:>9} {value:8.2f}")
    good = states == {"completed": count} and all(job["epoch"] == 1 for job in jobs)
    return 0 if good else 1


def _by_part(agent: int) -> dict[str, list[int]]:
    """The agent's processes by part; a slot or a shim has the command line of what forked it."""
    found: dict[str, list[int]] = {name: [] for name in NAMES}
    for pid in below(agent):
        try:
            command = Path(f"/proc/{pid}/cmdline").read_bytes()
        except OSError:  # a slot or a shim that has just ended
            continue
        part = next((part for word, part in _OF if word in command), "agent")
        found[part].append(pid)
    return found


def _run(client: Client, count: int) -> list[Any]:
    """Run so many jobs to their ends, and read them."""
    body: Submission = {"command": ["/usr/bin/true"]}
    waiting: list[str] = []
    for start in range(0, count, BATCH):
        entries = client.submit_batch([body] * min(BATCH, count - start))
        waiting += [entry.job.id for entry in entries if entry.job]
    jobs = [client.wait(job_id, TIMEOUT_S).data.model_dump() for job_id in waiting]
    time.sleep(SETTLE_S)
    return jobs
