"""Agents that are cut off, killed or stopped while they run a job that another one takes over.

Each job tells on what it runs and when, by the clock of this host (`scripts/local/witness.py`), so
that two copies of it that were alive at once would be seen. The leases here are of seconds; with
JOBLANE_LEASE=real they are what they are for everybody, and this takes six minutes.
"""

import json
import os
import signal
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from ec2_agent.processes import boottime
from ec2_agent.settings import PACE, LeaseTimes
from joblane.aws.clients import Clients
from scripts.local.agent import AGENT
from scripts.local.cloud import TENANT, Cloud
from scripts.local.deploy import BIN
from scripts.local.witness import Run, Witness, overlap, quiet_s, witness
from tests.e2e.conftest import Http
from tests.support import paced_agent
from tests.support.deployed import agents, submit, wait_for, wait_for_words
from tests.support.proxy import Fault, Proxy, proxy

REAL = os.environ.get("JOBLANE_LEASE") == "real"
PACE_HERE = PACE if REAL else LeaseTimes(heartbeat_s=0.5, lease_s=14, margin_s=5)
PROGRAM: tuple[str | Path, ...] = (
    AGENT
    if REAL
    else (
        BIN / "python",
        "-P",  # modules beside it, such as types.py, are not those of the standard library
        Path(paced_agent.__file__),
        *map(str, (PACE_HERE.heartbeat_s, PACE_HERE.lease_s, PACE_HERE.margin_s)),
    )
)

TICK_S = 0.02
SHOWN_S = 1.5
"""How often the other agent is shown the message of each job."""
LATE_S = 0.5
"""How late a host may be with a kill, besides what its timers show: far less than the margin."""
START_S = 10.0
"""For which a job outlasts a lease that begins with it: it is cut off some seconds later."""

CUT: dict[str, Fault] = {"refused": "refuse", "hung": "hang", "killed": "hang", "healed": "refuse"}
LOST = ("refused", "hung", "killed", "paused")
"""Those whose job is lost to another agent; the road of `healed` is open again in time."""


@dataclass
class Story:
    """What became of an agent and of its job."""

    agent: str
    job_id: str
    cut_at: float
    """When it was cut off, in seconds of CLOCK_BOOTTIME."""
    job: dict[str, Any]
    runs: list[Run]
    log: list[dict[str, Any]]
    """What the agent said."""

    def said(self, event: str) -> bool:
        """Whether the agent's log has an event of this job."""
        return any((line["event"], line.get("job_id")) == (event, self.job_id) for line in self.log)


class Stage:
    """One agent for each name, each with one job, and one that would like to have them all."""

    def __init__(
        self, cloud: Cloud, http: Http, sqs: Any, heard: Witness, roads: ExitStack
    ) -> None:
        self.cloud, self.http, self.sqs, self.heard = cloud, http, sqs, heard
        self.roads: dict[str, Proxy] = {
            name: roads.enter_context(proxy(cloud.endpoint, seed=1, share=1)) for name in CUT
        }
        self.jobs: dict[str, str] = {}
        self._messages: list[tuple[str, str]] = []
        self.over = threading.Event()
        self._tempting: Future[None] = Future()

    def start(self, *names: str) -> None:
        """Start agents for one job each."""
        for name in names:
            road = self.roads.get(name)
            self.cloud.start_agent(
                name,
                threads=1,
                endpoint=None if road is None else road.url,
                options=("--allow-host-network",),
                program=PROGRAM,
                wait=False,
            )
        for name in names:
            self.cloud.wait_for_agent(name)

    def begin(self) -> None:
        """Start all agents, and have each run a job; then the one that takes over."""
        lease_ticks = round((PACE_HERE.lease_s + START_S) / TICK_S)
        command = self.heard.command(TICK_S, lease_ticks, round(1 / TICK_S))
        self.start(*CUT, "paused")
        for _ in (*CUT, "paused"):
            job_id = submit(self.http, *command, network="host")
            self.jobs[wait_for(self.http, job_id, "active")["agent"]] = job_id
        for job_id in self.jobs.values():
            self.until_it_ran(job_id, 1)
            (spec,) = self.cloud.run_dir.glob(f"state/*/*/jobs/{job_id}.1/spec")
            said = json.loads(spec.read_text())
            self._messages.append((said["lane"], said["body"]))
        self.cloud.start_agent("heir", threads=8, options=("--allow-host-network",))

    def tempt(self) -> None:
        """Send the messages of all jobs again and again."""
        while not self.over.wait(SHOWN_S):
            for lane, body in self._messages:
                self.sqs.send_message(QueueUrl=lane, MessageBody=body, MessageGroupId=TENANT)

    def forget(self) -> None:
        """Leave no copy of a message for other tests' agents to look at."""
        for lane in {lane for lane, _ in self._messages}:
            self.sqs.purge_queue(QueueUrl=lane)

    def play(self, pool: ThreadPoolExecutor) -> float:
        """Cut them off, heal one road in time and all others late; return when it began."""
        self._tempting = pool.submit(self.tempt)
        cut_at = boottime()
        for name, fault in CUT.items():
            self.roads[name].fault = fault
        self.signal("killed", signal.SIGKILL)
        self.signal("paused", signal.SIGSTOP)
        wait_for_words(self.cloud.agents["healed"].log, '"heartbeat_failed"')
        self.roads["healed"].fault = None
        for name in LOST:
            self.until_it_ran(self.jobs[name], 2)
        for road in self.roads.values():
            road.fault = None
        self.signal("paused", signal.SIGCONT)
        self.cloud.agents.pop("killed").wait(5)
        self.start("killed")
        return cut_at

    def signal(self, name: str, number: int) -> None:
        """Send a signal to an agent alone."""
        os.kill(self.cloud.agents[name].pid, number)

    def until_it_ran(self, job_id: str, times: int) -> None:
        """Wait until a job has been started so often."""
        ends = time.monotonic() + PACE_HERE.lease_s + 30
        while len(self.heard.runs(job_id)) < times:
            assert time.monotonic() < ends, f"{job_id} was not started {times} times"
            assert not self._tempting.done(), self._tempting.exception()
            time.sleep(TICK_S)

    def story(self, name: str, cut_at: float) -> Story:
        """Wait for a job's end."""
        job_id = self.jobs[name]
        job = wait_for(self.http, job_id, "completed", "dead", "failed")
        ends = time.monotonic() + 10
        while list(self.cloud.run_dir.glob(f"state/*/{name}/jobs/{job_id}.*")):
            assert time.monotonic() < ends, f"{name} has not let go of its job"
            time.sleep(0.05)
        log = Path(self.cloud.run_dir, f"agent-{name}.log").read_text()
        lines = [json.loads(line) for line in log.splitlines()]
        return Story(name, job_id, cut_at, job, self.heard.runs(job_id), lines)


@pytest.fixture(name="stories", scope="module")
def _stories(cloud: Cloud, clients: Clients) -> Iterator[dict[str, Story]]:
    cloud.stop_agents()
    with witness() as heard, ThreadPoolExecutor() as pool, ExitStack() as stack:
        http = Http(cloud.url, cloud.token())
        stack.callback(http.close)
        stage = Stage(cloud, http, clients.make("sqs"), heard, stack)
        stack.callback(stage.forget)
        stack.callback(cloud.stop_agents)  # some have no way to AWS: none may meet other tests
        stack.callback(stage.over.set)
        stage.begin()
        cut_at = stage.play(pool)
        stage.over.set()
        yield {name: stage.story(name, cut_at) for name in stage.jobs}


def longest_pause_s(stories: dict[str, Story]) -> float:
    """How late this host was with a job's tick: it may have been as late with a kill."""
    runs = [run for story in stories.values() for run in story.runs]
    return max(late - early for run in runs for early, late in pairwise(run.at)) - TICK_S


@pytest.mark.timeout(PACE_HERE.lease_s + 120)
@pytest.mark.parametrize("name", LOST)
def test_the_job_stops_before_another_agent_starts_it(stories: dict[str, Story], name: str):
    story = stories[name]
    assert 2 == len(story.runs), story.runs
    assert not overlap(story.runs)
    first, second = story.runs
    late_s = LATE_S + longest_pause_s(stories)
    assert first.at[-1] < story.cut_at + PACE_HERE.holds_s + late_s
    assert second.at[0] > story.cut_at - PACE_HERE.heartbeat_s - late_s + PACE_HERE.lease_s
    assert quiet_s(story.runs)[0] > PACE_HERE.margin_s - late_s
    print(f"{name}: stopped {first.at[-1] - story.cut_at:.2f} s after the cut,", end=" ")
    print(f"started again {quiet_s(story.runs)[0]:.2f} s later")
    job = story.job
    assert ("completed", 2, 2) == (job["state"], job["attempt"], job["epoch"])
    assert job["agent"] in ("heir", "healed"), "whoever had a free slot"


@pytest.mark.parametrize("name", LOST)
def test_who_lost_its_job_reports_nothing_for_it(stories: dict[str, Story], name: str):
    story = stories[name]
    assert story.said("job_abandoned") or name == "killed"
    assert not story.said("attempt_ended")
    assert not story.said("stale_completion_ignored")


@pytest.mark.parametrize("name", [*LOST, "healed"])
def test_who_was_away_works_on(stories: dict[str, Story], cloud: Cloud, platform: Http, name: str):
    assert stories
    assert cloud.agents[name].is_alive()
    assert agents(platform, name)[name]["alive"]


def test_a_road_that_heals_in_time_costs_the_job_nothing(stories: dict[str, Story]):
    story = stories["healed"]
    (run,) = story.runs
    assert run.ended
    assert run.at[-1] > story.cut_at + PACE_HERE.holds_s
    job = story.job
    assert ("completed", "healed", 1, 1) == (
        job["state"],
        job["agent"],
        job["attempt"],
        job["epoch"],
    )
    assert any(line["event"] == "heartbeat_failed" for line in story.log)
