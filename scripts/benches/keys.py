"""Slots of keys: how soon they pass on, and whether two jobs of a key ever run at once.

`scripts/bench keys [--jobs 2000] [--keys 50] [--kills 20] [--seed N] [--json]` deploys a cloud of
its own. First jobs of one key run one after the other, undisturbed: from the end of each to the
claim of the next. Then jobs of many keys with `max_active` 1 run on three agents, which are killed
at random, alone or with all their processes; each job tells a witness on this machine when it
begins, lives and ends, and its JOBLANE_SLOT. The last line is one JSON object; the exit code is 1
if two jobs of a key ran at once, a slot did not rise, a job was lost or is stuck, or a key is not
empty at the end.
"""

import argparse
import json
import random
import statistics
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import httpx

from scripts.local.cloud import Cloud, running_cloud
from scripts.local.processes import wait_until
from scripts.local.witness import Run, Witness, witness

AGENTS = ("keys-1", "keys-2", "keys-3")
THREADS = 6
BATCH = 50
"""Jobs of one request."""
PASSES = 30
"""Jobs that are measured undisturbed."""
TICK_S = 0.05
TICKS = 1, 6
"""Bounds of the ticks of a job: 0.05 to 0.3 s."""
WHOLE = 0.4
"""Share of the kills that end all processes of an agent's group."""
AWAY_S = 0.0, 2.0
"""How long a killed agent is away."""
PATIENCE_S = 900
"""Without a job that ends in so long, the rest counts as stuck."""
SHOWN_AGAIN_S = 5.0
"""How often the messages of jobs with a slot are sent once more: one that died with its agent
shows only after two minutes."""
ENDED = {"completed", "failed", "dead", "cancelled", "expired", "skipped", "stale"}


@dataclass(frozen=True)
class Figures:
    """The result under kills."""

    jobs: int
    keys: int
    kills: int
    runs: int
    """Starts of jobs; more than `jobs` if some died with their agents."""
    overlaps: int
    """Pairs of runs of a key that ran at once, by what they told."""
    falling_slots: int
    """Runs whose JOBLANE_SLOT was not above that of the run before."""
    lost: int
    """Jobs that did not complete, or never told their end."""
    left: int
    """Jobs that keys still list."""
    problems: list[str]


@dataclass
class KeyedJobs:
    """Jobs of many keys on agents that die."""

    cloud: Cloud
    rng: random.Random
    witness: Witness
    http: httpx.Client
    keys: int
    jobs: dict[str, int] = field(default_factory=dict)
    """The key of each job."""
    kills: int = 0

    def submit(self, number: int) -> None:
        """Submit jobs, the keys in turn."""
        first = len(self.jobs)
        keys = [n % self.keys for n in range(first, first + number)]
        body = {"jobs": [self._job(key) for key in keys]}
        answer = self.http.post("/v1/jobs/batch", json=body).raise_for_status().json()
        for key, entry in zip(keys, answer["entries"], strict=True):
            if entry["status"] != httpx.codes.ACCEPTED:
                raise RuntimeError(f"a job was not accepted: {entry}")
            self.jobs[entry["job"]["id"]] = key

    def _job(self, key: int) -> dict[str, Any]:
        return {
            "command": self.witness.command(TICK_S, self.rng.randint(*TICKS)),
            "network": "host",
            "retry": {"max_attempts": 100, "backoff_s": [0]},
            "concurrency": {"key": ["bench", key], "max_active": 1, "max_queued": 1000},
        }

    def kill(self) -> str:
        """Kill an agent and start it again. Returns which one, and how."""
        name = self.rng.choice(AGENTS)
        whole = self.rng.random() < WHOLE
        self.cloud.kill_agent(name, with_group=whole)
        self.kills += 1
        time.sleep(self.rng.uniform(*AWAY_S))
        self.start(name)
        return f"{name}{' with its processes' if whole else ''}"

    def start(self, name: str) -> None:
        """Start an agent."""
        self.cloud.start_agent(name, threads=THREADS, options=("--allow-host-network",))

    def run(self, jobs: int, kills: int, *, quiet: bool) -> Figures:
        """Submit jobs in parts, kill an agent in each but the last, wait, and judge."""
        for name in AGENTS:
            self.start(name)
        part = jobs // (kills + 1)
        for number in range(1, kills + 2):
            last = number > kills
            while (missing := (jobs if last else part * number) - len(self.jobs)) > 0:
                self.submit(min(BATCH, missing))
            if not last:
                self._wait_until_begun(part * number - part // 2)
                self._say(self.kill(), quiet=quiet)
        self._settle()
        return self.judge()

    def _say(self, what: str, *, quiet: bool) -> None:
        if not quiet:
            said = f"{len(self.jobs)} submitted, {self._count_told()} begun, killed {what}"
            print(said, file=sys.stderr)

    def _wait_until_begun(self, jobs: int) -> None:
        if not wait_until(lambda: self._count_told() >= jobs, PATIENCE_S):
            raise RuntimeError(f"{self._count_told()} of {len(self.jobs)} jobs have begun")

    def _count_told(self) -> int:
        return sum(bool(self.witness.runs(job_id)) for job_id in list(self.jobs))

    def _pages(self, path: str, **query: str) -> Iterator[dict[str, Any]]:
        following: str | None = ""
        while following is not None:
            params = {"limit": "100", **query, **({"next": following} if following else {})}
            page = self.http.get(path, params=params).raise_for_status().json()
            yield from page["entries"]
            following = page["next"]

    def _read_in_use(self) -> list[dict[str, Any]]:
        return list(self._pages("/v1/keys/command"))

    def _settle(self) -> None:
        """Wait until no key is in use, or nothing has changed for long."""
        seen, since = None, time.monotonic()
        while keys := self._read_in_use():
            now = sum(key["active"] + key["queued"] for key in keys)
            if now != seen:
                seen, since = now, time.monotonic()
            elif time.monotonic() > since + PATIENCE_S:
                return
            if time.monotonic() > since + SHOWN_AGAIN_S:
                shown = [
                    holder["id"]
                    for key in keys
                    for holder in self.http.get(f"/v1/keys/command/{key['id']}").json()["holders"]
                ]
                self.cloud.show_again(shown)
            time.sleep(1)

    def judge(self) -> Figures:
        """Count what must not be."""
        states = {job["id"]: job["state"] for job in self._pages("/v1/jobs")}
        runs = {job_id: self.witness.runs(job_id) for job_id in self.jobs}
        problems = [
            f"{job_id} of key {self.jobs[job_id]} is lost: {states.get(job_id)}, {len(told)} runs"
            for job_id, told in runs.items()
            if states.get(job_id) != "completed" or not any(run.ended for run in told)
        ]
        lost = len(problems)
        overlaps, falling = [], []
        of_key: defaultdict[int, list[Run]] = defaultdict(list)
        for job_id, told in runs.items():
            of_key[self.jobs[job_id]] += told
        for key, told in sorted(of_key.items()):
            told.sort(key=lambda run: run.at[0])
            for before, after in pairwise(told):
                if before.at[-1] >= after.at[0]:
                    overlaps.append(f"key {key}: {before} and {after}")
                if not slot_of(before) < slot_of(after):
                    falling.append(f"key {key}: slot {after.slot} after {before.slot}")
        left = [key for key in self._read_in_use() if key["active"] or key["queued"]]
        return Figures(
            jobs=len(self.jobs),
            keys=self.keys,
            kills=self.kills,
            runs=sum(map(len, runs.values())),
            overlaps=len(overlaps),
            falling_slots=len(falling),
            lost=lost,
            left=sum(key["active"] + key["queued"] for key in left),
            problems=[*problems, *overlaps, *falling, *(f"in use: {key}" for key in left)],
        )


def slot_of(run: Run) -> tuple[int, int]:
    """JOBLANE_SLOT as two numbers."""
    grant, _, epoch = run.slot.partition(".")
    return int(grant), int(epoch)


def passes(cloud: Cloud, http: httpx.Client) -> tuple[list[float], list[float]]:
    """Run jobs of one key one after the other. Returns seconds from each end to the next one's
    slot, and to its claim."""  # noqa: D205, D209 - one sentence
    cloud.start_agent("passes", threads=2)
    body = {"command": ["true"], "concurrency": {"key": ["pass"], "max_queued": PASSES}}
    answers = [http.post("/v1/jobs", json=body).raise_for_status() for _ in range(PASSES)]
    ids = [answer.json()["id"] for answer in answers]
    jobs = [_wait_end(http, job_id) for job_id in ids]
    cloud.stop_agent("passes")
    steps = [{step["state"]: _seconds(step["at"]) for step in job["timeline"]} for job in jobs]
    pairs = [(before, after) for before, after in pairwise(steps) if "waiting" in after]
    slots = [after["pending"] - before["completed"] for before, after in pairs]
    return slots, [after["active"] - before["completed"] for before, after in pairs]


def _wait_end(http: httpx.Client, job_id: str) -> dict[str, Any]:
    ends = time.monotonic() + PATIENCE_S
    while time.monotonic() < ends:
        job: dict[str, Any] = http.get(f"/v1/jobs/{job_id}").raise_for_status().json()
        if job["state"] in ENDED:
            return job
        time.sleep(0.1)
    raise RuntimeError(f"job {job_id} has not ended")


def _seconds(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


def _spread(seconds: Sequence[float]) -> dict[str, int]:
    """Median and 95th percentile, in milliseconds."""
    ranked = sorted(seconds)
    median, p95 = statistics.median(ranked), ranked[int(len(ranked) * 0.95)]
    return {"median_ms": round(median * 1000), "p95_ms": round(p95 * 1000)}


def main() -> int:
    """Run it."""
    parser = argparse.ArgumentParser(prog="scripts/bench keys", description=__doc__)
    parser.add_argument("--jobs", type=int, default=2000)
    parser.add_argument("--keys", type=int, default=50)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10_000))
    parser.add_argument("--json", action="store_true", help="only the last line")
    options = parser.parse_args()
    began = time.monotonic()
    with (
        tempfile.TemporaryDirectory(prefix="joblane-keys-") as where,
        running_cloud(Path(where) / "run") as cloud,
        witness() as heard,
        httpx.Client(
            base_url=cloud.url,
            headers={"Authorization": f"Bearer {cloud.token(machine='admin')}"},
            timeout=60,
        ) as http,
    ):
        slots, claims = passes(cloud, http)
        passed = {"slot": _spread(slots), "claim": _spread(claims)}
        if not options.json:
            print(f"from one end to the next job's slot and claim: {passed}", file=sys.stderr)
        rng = random.Random(options.seed)
        jobs = KeyedJobs(cloud, rng, heard, http, options.keys)
        figures = jobs.run(options.jobs, options.kills, quiet=options.json)
        cloud.stop_agents()
    for problem in figures.problems:
        print(problem, file=sys.stderr)
    said = {name: value for name, value in asdict(figures).items() if name != "problems"}
    seconds = round(time.monotonic() - began, 1)
    print(json.dumps({"passed": passed, **said, "seconds": seconds, "seed": options.seed}))
    return 1 if figures.problems else 0


if __name__ == "__main__":
    sys.exit(main())
