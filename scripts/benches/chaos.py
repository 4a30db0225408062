"""Kills what runs on an agent's host at random moments, and counts what was lost or ran twice.

`scripts/bench chaos [--jobs 100] [--minutes 0.5] [--seed N] [--json]` deploys a cloud of its own,
submits jobs that tell a collector on this machine of every tick of theirs, and kills agent, state
service, launcher and shims, alone and together, for so many minutes, in which it goes on
submitting in proportion. Then it waits for what is left. The last line is one JSON object; the
exit code is 1 if a job was lost or ran twice at once.
"""

import argparse
import json
import os
import random
import signal
import socket
import sys
import tempfile
import threading
import time
from collections import defaultdict
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

import httpx

from scripts.local.cloud import Cloud, running_cloud
from scripts.local.processes import Process

AGENT = "chaos"
THREADS = 8
DEFAULT_MINUTES = 0.5
TICK_S = 0.1
RESTARTABLE = 0.7
"""Share of jobs that may be started again."""
PATIENCE_S = 420
"""A message that an agent received and died with shows again after two minutes, and the lease of
one that never comes back ends after five; this one always comes back."""
ENDED = {"completed", "failed", "dead"}

Role = Literal["agent", "state", "launcher", "shim"]
VICTIMS: tuple[tuple[Role, ...], ...] = (
    ("agent",),
    ("agent",),
    ("state",),
    ("launcher",),
    ("shim",),
    ("agent", "state"),
    ("agent", "launcher"),
    ("agent", "state", "launcher"),
    ("agent", "shim"),
)
MARKS: dict[Role, str] = {
    "state": "ec2_agent.state",
    "launcher": "from ec2_agent.sandbox import zygote",
}
"""What the command line of these children of an agent holds."""

TICKER = """
token=$RANDOM$RANDOM$RANDOM
tell() {{ echo "$JOBLANE_JOB_ID $token $1" >/dev/udp/127.0.0.1/{port}; echo "$1"; }}
for ((n = 0; n < {ticks}; n++)); do tell "$n"; sleep {tick_s}; done
tell end
"""
"""A job: each tick goes to the collector, past everything of ours, and to its output."""


@dataclass
class Run:
    """One process of a job, as the collector saw it."""

    first: float
    last: float
    ended: bool = False


class Collector:
    """Hears every tick of every job."""

    def __init__(self) -> None:
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8 * 1024 * 1024)
        self._socket.bind(("127.0.0.1", 0))
        self.port: int = self._socket.getsockname()[1]
        self.runs: dict[str, dict[str, Run]] = defaultdict(dict)
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        while True:
            job_id, token, tick = self._socket.recv(200).decode().split()
            now = time.monotonic()
            run = self.runs[job_id].setdefault(token, Run(now, now))
            run.last = now
            run.ended |= tick == "end"


@dataclass
class Figures:
    """What the last line says."""

    jobs: int = 0
    kills: int = 0
    adoptions: int = 0
    retries: int = 0
    losses: int = 0
    overlaps: int = 0
    repeats: int = 0
    """Jobs that ran to their end more than once, and non-restartable ones that started twice."""
    torn_logs: int = 0
    """Completed jobs whose output is not each tick of their last run, once and in order."""
    seconds: float = 0.0
    seed: int = 0
    problems: list[str] = field(default_factory=list)


@dataclass
class Chaos:
    """One run of it."""

    cloud: Cloud
    dice: random.Random
    collector: Collector
    http: httpx.Client
    figures: Figures
    jobs: dict[str, tuple[int, bool]] = field(default_factory=dict)
    """Ticks of each job, and whether it may be started again."""

    def submit(self, number: int) -> None:
        """Submit jobs of 0.2 to 5 s."""
        for _ in range(number):
            ticks, restartable = self.dice.randint(2, 50), self.dice.random() < RESTARTABLE
            script = TICKER.format(port=self.collector.port, ticks=ticks, tick_s=TICK_S)
            body = {
                "command": ["bash", "-c", script],
                "network": "host",
                "restartable": restartable,
                "retry": {"max_attempts": 100, "backoff_s": [0]},
            }
            answer = self.http.post("/v1/jobs", json=body).raise_for_status().json()
            self.jobs[str(answer["id"])] = ticks, restartable

    def kill(self) -> str:
        """Kill somebody, and bring the agent back after a while if it was that; says whom."""
        agent = self.cloud.agents[AGENT]
        pids = roles(agent)
        victims = self.dice.choice(VICTIMS)
        for role in victims:
            if pids[role]:
                with suppress(ProcessLookupError):
                    os.kill(self.dice.choice(pids[role]), signal.SIGKILL)
                    self.figures.kills += 1
            time.sleep(self.dice.choice((0, 0, 0.01, 0.1)))
        if "agent" in victims:
            agent.wait(10)
            time.sleep(self.dice.uniform(0, 3))
        self.revive()
        return " and ".join(victims)

    def start(self) -> None:
        """Start the agent, under its old name."""
        self.cloud.start_agent(AGENT, threads=THREADS, options=("--allow-host-network",))

    def read(self, job_id: str) -> dict[str, Any]:
        """Read a job."""
        job: dict[str, Any] = self.http.get(f"/v1/jobs/{job_id}").raise_for_status().json()
        return job

    def run(self, jobs: int, minutes: float, *, quiet: bool, requeue: bool = False) -> None:
        """Submit and kill for so many minutes, wait for what is left, and judge.

        With `requeue` an operator sends messages again at the end: one that died with its agent
        shows only after two minutes.
        """
        self.start()
        self.submit(jobs // 4)
        total = round(jobs * max(1.0, minutes / DEFAULT_MINUTES))
        began = time.monotonic()
        while (gone := (time.monotonic() - began) / (minutes * 60)) < 1:
            self.submit(max(0, round(total * gone) - len(self.jobs)))
            time.sleep(self.dice.uniform(0.3, 3))
            whom = self.kill()
            if not quiet:
                print(f"{len(self.jobs)} jobs, killed {whom}", file=sys.stderr)
        self.submit(total - len(self.jobs))
        if requeue:
            self.http.post("/v1/queues/default/requeue").raise_for_status()
        patience = time.monotonic() + PATIENCE_S
        while time.monotonic() < patience and not self.settled():
            self.revive()
            time.sleep(1)
        self.judge()

    def revive(self) -> None:
        """Start the agent again if it has ended, as systemd would."""
        agent = self.cloud.agents[AGENT]
        if not agent.is_alive():
            self.cloud.agents.pop(AGENT)
            self.start()

    def settled(self) -> bool:
        """Whether every job has ended."""
        return all(self.read(job_id)["state"] in ENDED for job_id in self.jobs)

    def judge(self) -> None:
        """Count what was promised not to happen."""
        figures = self.figures
        figures.jobs = len(self.jobs)
        log = Path(self.cloud.run_dir, f"agent-{AGENT}.log").read_text(errors="replace")
        figures.adoptions = log.count("of an earlier process runs")
        for job_id, (ticks, restartable) in self.jobs.items():
            job, runs = (
                self.read(job_id),
                sorted(self.collector.runs[job_id].values(), key=lambda run: run.first),
            )
            figures.retries += max(0, len(runs) - 1)
            said = [(step["state"], step["reason"]) for step in job["timeline"]]
            if job["state"] != "completed" and (restartable or job["state"] != "failed"):
                figures.losses += 1
                figures.problems.append(f"{job_id} {job['state']}: {said}")
            if any(late.first < early.last for early, late in pairwise(runs)):
                figures.overlaps += 1
                figures.problems.append(f"{job_id} overlaps: {runs}")
            if sum(run.ended for run in runs) > 1 or (not restartable and len(runs) > 1):
                figures.repeats += 1
                figures.problems.append(f"{job_id} repeats: {runs} {said}")
            if job["state"] == "completed" and not self.log_is_whole(job_id, ticks):
                figures.torn_logs += 1
                figures.problems.append(f"{job_id}: its output has gaps or repeats; {said}")

    def log_is_whole(self, job_id: str, ticks: int) -> bool:
        """Whether the last run's output is all there, once and in order."""
        text, cursor = "", None
        while True:
            query = {"limit": "1000", **({"next": cursor} if cursor else {})}
            page = self.http.get(f"/v1/jobs/{job_id}/logs", params=query).raise_for_status().json()
            text += "".join(record.get("text", "") for record in page["entries"])
            cursor = page["next"]
            if page["complete"] or not page["entries"]:
                break
        last = "".join(f"{n}\n" for n in range(ticks)) + "end\n"
        return page["complete"] and text.endswith(last) and text.count("end\n") == 1


def roles(agent: Process) -> dict[Role, list[int]]:
    """The processes that belong to an agent, by what they are."""
    found: dict[Role, list[int]] = {"agent": [agent.pid], "state": [], "launcher": [], "shim": []}
    for path in Path("/proc").iterdir():
        if not path.name.isdigit():
            continue
        try:
            parent = int((path / "stat").read_text().rpartition(")")[2].split()[1])
            command = (path / "cmdline").read_bytes().decode("utf-8", "replace")
        except OSError:
            continue
        for role, mark in MARKS.items():
            if parent == agent.pid and mark in command:
                found[role].append(int(path.name))
    for file in Path(agent.log).parent.glob("**/jobs/*/shim"):
        with suppress(OSError, ValueError, KeyError):
            found["shim"].append(int(json.loads(file.read_text())["pid"]))
    return found


def main() -> int:
    """Run it."""
    parser = argparse.ArgumentParser(prog="scripts/bench chaos", description=__doc__)
    parser.add_argument("--jobs", type=int, default=100)
    parser.add_argument("--minutes", type=float, default=DEFAULT_MINUTES)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10_000))
    parser.add_argument("--json", action="store_true", help="only the last line")
    options = parser.parse_args()
    figures = Figures(seed=options.seed)
    began = time.monotonic()
    with (
        tempfile.TemporaryDirectory(prefix="joblane-chaos-") as where,
        running_cloud(Path(where) / "run") as cloud,
        httpx.Client(
            base_url=cloud.url,
            headers={"Authorization": f"Bearer {cloud.token()}"},
            timeout=60,
        ) as http,
    ):
        dice = random.Random(options.seed)  # noqa: S311 - which process to kill, not a secret
        chaos = Chaos(cloud, dice, Collector(), http, figures)
        chaos.run(options.jobs, options.minutes, quiet=options.json)
        cloud.stop_agent(AGENT)
    figures.seconds = round(time.monotonic() - began, 1)
    for problem in figures.problems:
        print(problem, file=sys.stderr)
    print(json.dumps({k: v for k, v in asdict(figures).items() if k != "problems"}))
    return 1 if figures.problems else 0


if __name__ == "__main__":
    sys.exit(main())
