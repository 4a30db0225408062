"""Kills processes of an agent's host at random, and counts jobs that were lost or ran twice.

`scripts/bench chaos [--jobs 100] [--minutes 0.5] [--seed N] [--json]` deploys a cloud of its own,
submits jobs that tell a witness on this machine of every tick of theirs, and kills agent, state
service, launcher, shims and what shims are forked from, alone and together, for so many minutes,
in which it goes on submitting in proportion. Then it waits for what is left, and judges it by what
the jobs told (`scripts/local/verdict.py`). The last line is one JSON object; the exit code is 1 if
a promise was broken.
"""

import argparse
import json
import os
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

import httpx

from ec2_agent.processes import is_running
from scripts.local.cloud import Cloud, running_cloud
from scripts.local.verdict import Case, count, output_of
from scripts.local.weight import children
from scripts.local.witness import Witness, witness

AGENT = "chaos"
THREADS = 12
DEFAULT_MINUTES = 0.5
TICK_S = 0.05
RESTARTABLE = 0.7
"""Share of restartable jobs."""
LASTING = 8
"""One job in so many is a long one."""
PATIENCE_S = 420
"""A message that an agent received and died with shows again after two minutes, and the lease of
one that never comes back ends after five; this one always comes back."""
SHOWN_AGAIN_S = 3.0
"""When messages are sent once more where nobody waits for SQS to show them; then after twice as
long each time, because an agent has to look at each copy."""
PAUSE_S = 0.3, 3.0
"""Between one round of kills and the next; so long an agent is away, one time in three."""
BUSY_S = 5.0
CRIPPLED_S = 3.0
"""An agent whose launcher has died goes by itself, within so long."""
ENDED = {"completed", "failed", "dead"}

Role = Literal["agent", "state", "launcher", "shim", "forker"]
ROLES: tuple[Role, ...] = ("agent", "state", "launcher", "shim", "forker")
TOGETHER = 0.35
"""How likely each other one is killed along with the first."""
MARKS: dict[Role, str] = {
    "state": "ec2_agent.state",
    "launcher": "from ec2_agent.sandbox import zygote",
    "forker": "from ec2_agent.shim import zygote",
}
"""What the command line of these children of an agent holds."""


@dataclass(frozen=True)
class Figures:
    """The result."""

    jobs: int
    kills: int
    killed: dict[str, int]
    adoptions: int
    """Running jobs that a new agent process went on with, each time."""
    ended_unseen: int
    """Jobs that had ended while no agent was there, and were reported by the next."""
    retries: int
    losses: int
    overlaps: int
    repeats: int
    """Jobs that ran again when they had ended, and non-restartable ones that started twice."""
    interruptions: int
    """Jobs that died though nobody had killed their shims."""
    torn_logs: int
    """Jobs whose readers miss some of the output, or see it twice."""
    problems: list[str]


@dataclass
class Chaos:
    """One run of it."""

    cloud: Cloud
    rng: random.Random
    witness: Witness
    http: httpx.Client
    jobs: dict[str, tuple[int, bool]] = field(default_factory=dict)
    """Ticks of each job, and whether it may be started again."""
    shim_kills: Counter[str] = field(default_factory=Counter)
    """By job; those of other processes by ""."""
    kills: Counter[str] = field(default_factory=Counter)
    """By role."""
    deck: list[Role] = field(default_factory=list)
    """Whose turn it is to be killed, last first: nobody is forgotten in a short run."""

    def submit(self, number: int) -> None:
        """Submit jobs of 0.2 to 8 s, and a few of up to 20, which outlast their agents."""
        for _ in range(number):
            lasting = len(self.jobs) % LASTING == 0
            ticks = self.rng.randint(*((160, 400) if lasting else (4, 160)))
            restartable = self.rng.random() < RESTARTABLE
            body = {
                "command": self.witness.command(TICK_S, ticks),
                "network": "host",
                "restartable": restartable,
                "retry": {"max_attempts": 100, "backoff_s": [0]},
            }
            answer = self.http.post("/v1/jobs", json=body).raise_for_status().json()
            self.jobs[str(answer["id"])] = ticks, restartable

    def kill(self) -> str:
        """Kill a process, and restart the agent later if it was the agent. Returns its role."""
        if not self.deck:
            self.deck = self.rng.sample(ROLES, len(ROLES))
        first = self.deck.pop()
        others = self.rng.sample([role for role in ROLES if role != first], len(ROLES) - 1)
        chosen = [first, *(role for role in others if self.rng.random() < TOGETHER)]
        found = self.find()
        for role in chosen:
            if found[role]:
                self.hit(role, *self.rng.choice(found[role]))
            time.sleep(self.rng.choice((0, 0, 0.01, 0.1)))
        agent = self.cloud.agents[AGENT]
        if "agent" in chosen:
            agent.wait(10)
            time.sleep(self.rng.choice((0, 0, 1)) * self.rng.uniform(*PAUSE_S))
        elif "launcher" in chosen:
            ends = time.monotonic() + CRIPPLED_S
            while agent.is_alive() and time.monotonic() < ends:
                time.sleep(0.02)
        self.revive()
        return " and ".join(chosen)

    def wait_until_something_runs(self) -> None:
        """Wait until a restarted agent has taken a job: kills of an idle one test little."""
        ends = time.monotonic() + BUSY_S
        while not self.find()["shim"] and time.monotonic() < ends:
            time.sleep(0.05)

    def hit(self, role: Role, pid: int, job_id: str = "") -> None:
        """Kill one process, and record it; `job_id` is the job that a shim keeps."""
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
            self.kills[role] += 1
            self.shim_kills[job_id] += 1

    def find(self) -> dict[Role, list[tuple[int, str]]]:
        """Find the processes of the agent by what they are: pid, and the job that a shim keeps."""
        agent = self.cloud.agents[AGENT].pid
        found: dict[Role, list[tuple[int, str]]] = {role: [] for role in ROLES}
        found["agent"].append((agent, ""))
        for pid in children().get(agent, []):
            with suppress(OSError):  # it has just ended
                command = Path(f"/proc/{pid}/cmdline").read_text("utf-8", "replace")
                for role, mark in MARKS.items():
                    if mark in command:
                        found[role].append((pid, ""))
        for file in self.cloud.run_dir.glob(f"state/*/{AGENT}/jobs/*/shim"):
            with suppress(OSError, ValueError):  # its job has just ended
                who = json.loads(file.read_text())
                if is_running(who):
                    found["shim"].append((who["pid"], file.parent.name.partition(".")[0]))
        return found

    def revive(self) -> None:
        """Start the agent if it does not run, under its old name, as systemd would."""
        agent = self.cloud.agents.get(AGENT)
        if agent is None or not agent.is_alive():
            self.cloud.agents.pop(AGENT, None)
            self.cloud.start_agent(AGENT, threads=THREADS, options=("--allow-host-network",))

    def read(self, job_id: str) -> dict[str, Any]:
        """Read a job."""
        job: dict[str, Any] = self.http.get(f"/v1/jobs/{job_id}").raise_for_status().json()
        return job

    def run(
        self, jobs: int, progress: Iterable[float], *, quiet: bool, impatient: bool = False
    ) -> Figures:
        """Submit and kill, a round for each share of the way in `progress`; then wait and judge.

        With `impatient`, messages are sent again at the end: one that died with its agent shows
        only after two minutes.
        """
        self.revive()
        for gone in progress:
            self.submit(round(jobs * (0.25 + 0.75 * gone)) - len(self.jobs))
            time.sleep(self.rng.uniform(*PAUSE_S))
            self.wait_until_something_runs()
            whom = self.kill()
            if not quiet:
                print(f"{len(self.jobs)} jobs, killed {whom}", file=sys.stderr)
        self.submit(jobs - len(self.jobs))
        self.settle(impatient=impatient)
        return self.judge()

    def settle(self, *, impatient: bool) -> None:
        """Wait until every job has ended, up to a time limit."""
        left, began = list(self.jobs), time.monotonic()
        show_at, patience = began, began + PATIENCE_S
        while time.monotonic() < patience:
            left = [job_id for job_id in left if self.read(job_id)["state"] not in ENDED]
            if not left:
                return
            if impatient and time.monotonic() >= show_at:
                self.cloud.show_again(left)
                show_at = began + 2 * (time.monotonic() - began) + SHOWN_AGAIN_S
            self.revive()
            time.sleep(0.5)

    def judge(self) -> Figures:
        """Count broken guarantees."""
        cases = {job_id: self.case(job_id) for job_id in self.jobs}
        counted, problems = count(cases)
        found: Counter[bool] = Counter()
        for line in Path(self.cloud.agents[AGENT].log).read_text(errors="replace").splitlines():
            with suppress(ValueError):  # the last one of an agent that was killed
                said = json.loads(line)
                if said["event"] == "job_found":
                    found[said["found"] == "runs"] += 1
        return Figures(
            jobs=len(cases),
            kills=self.kills.total(),
            killed=dict(self.kills),
            adoptions=found[True],
            ended_unseen=found[False],
            retries=sum(max(0, len(case.runs) - 1) for case in cases.values()),
            losses=counted["loss"],
            overlaps=counted["overlap"],
            repeats=counted["repeat"],
            interruptions=counted["interruption"],
            torn_logs=counted["torn_log"],
            problems=[self.explain(problem) for problem in problems],
        )

    def case(self, job_id: str) -> Case:
        """Collect the results of a job."""
        ticks, restartable = self.jobs[job_id]
        runs = self.witness.runs(job_id)
        state = str(self.read(job_id)["state"])
        output = output_of(self.http.get, job_id)
        return Case(ticks, restartable, state, runs, output, self.shim_kills[job_id])

    def explain(self, problem: str) -> str:
        """Add a job's timeline to a problem."""
        steps = self.read(problem.partition(":")[0])["timeline"]
        return f"{problem}; {[(step['at'], step['state'], step['reason']) for step in steps]}"


def elapsing(seconds: float) -> Iterator[float]:
    """Yield the elapsed share of a time, until it is over."""
    began = time.monotonic()
    while (gone := (time.monotonic() - began) / seconds) < 1:
        yield gone


def main() -> int:
    """Run it."""
    parser = argparse.ArgumentParser(prog="scripts/bench chaos", description=__doc__)
    parser.add_argument("--jobs", type=int, default=100)
    parser.add_argument("--minutes", type=float, default=DEFAULT_MINUTES)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10_000))
    parser.add_argument("--json", action="store_true", help="only the last line")
    options = parser.parse_args()
    began = time.monotonic()
    with (
        tempfile.TemporaryDirectory(prefix="joblane-chaos-") as where,
        running_cloud(Path(where) / "run") as cloud,
        witness() as heard,
        httpx.Client(
            base_url=cloud.url,
            headers={"Authorization": f"Bearer {cloud.token()}"},
            timeout=60,
        ) as http,
    ):
        rng = random.Random(options.seed)
        chaos = Chaos(cloud, rng, heard, http)
        jobs = round(options.jobs * max(1.0, options.minutes / DEFAULT_MINUTES))
        figures = chaos.run(jobs, elapsing(options.minutes * 60), quiet=options.json)
        cloud.stop_agent(AGENT)
    for problem in figures.problems:
        print(problem, file=sys.stderr)
    said = {name: value for name, value in asdict(figures).items() if name != "problems"}
    seconds = round(time.monotonic() - began, 1)
    print(json.dumps({**said, "seconds": seconds, "seed": options.seed}))
    return 1 if figures.problems else 0


if __name__ == "__main__":
    sys.exit(main())
