"""Every kind of network fault between an agent and AWS, while jobs run.

Each fault lasts some seconds here, and then messages are sent again, as SQS may do; with
JOBLANE_FAULT_S=60 each lasts a minute, and no message is sent again.
"""

import os
import time
from collections.abc import Iterable
from functools import partial
from typing import Any

import pytest

from scripts.benches.chaos import SHOWN_AGAIN_S
from scripts.local.cloud import Cloud
from scripts.local.verdict import Case, count, output_of
from scripts.local.witness import witness
from tests.e2e.conftest import Http
from tests.support.deployed import agents, submit, wait_for
from tests.support.depth import budget
from tests.support.proxy import FAULTS, Fault, proxy

LONG = os.environ.get("JOBLANE_FAULT_S")
FAULT_S = float(LONG or budget(2, 3))
JOBS = budget(5, 6)
"""Submitted for each fault: two before it, which then end in it, and the rest during it."""
TICKS, TICK_S = 14, 0.05
RESTED_S = 200
"""A message that an agent received without learning of it shows again after two minutes."""


def settle(cloud: Cloud, http: Http, jobs: Iterable[str]) -> dict[str, dict[str, Any]]:
    """Wait for every job's end, one after the other."""
    ended: dict[str, dict[str, Any]] = {}
    left, began = list(jobs), time.monotonic()
    show_at, ends = began, began + RESTED_S
    while left:
        job = read(http, left[-1])
        if job["state"] in ("completed", "failed"):
            ended[left.pop()] = job
            continue
        assert time.monotonic() < ends, f"not ended: {job}, and {len(left) - 1} more"
        if LONG is None and time.monotonic() >= show_at:
            cloud.show_again(left)
            show_at = began + 2 * (time.monotonic() - began) + SHOWN_AGAIN_S
        time.sleep(0.2)
    return ended


def read(http: Http, job_id: str) -> dict[str, Any]:
    job: dict[str, Any] = http("GET", f"/v1/jobs/{job_id}").json()
    return job


@pytest.mark.timeout(len(FAULTS) * (FAULT_S + 5) + RESTED_S + 60)
def test_no_job_is_lost_or_doubled_and_the_agent_recovers(cloud: Cloud, http: Http, platform: Http):
    cloud.stop_agents()
    jobs: dict[str, tuple[Fault, bool]] = {}
    with witness() as heard, proxy(cloud.endpoint, seed=1) as road:

        def begin(fault: Fault, number: int, *, restartable: bool = True) -> None:
            for _ in range(number):
                command = heard.command(TICK_S, TICKS)
                job_id = submit(http, *command, restartable=restartable, network="host")
                jobs[job_id] = fault, restartable

        cloud.start_agent("remote", endpoint=road.url, options=("--allow-host-network",))
        for fault in FAULTS:
            begin(fault, 2)
            time.sleep(0.3)
            road.fault = fault
            begin(fault, JOBS - 3)
            begin(fault, 1, restartable=False)
            time.sleep(FAULT_S)
            road.fault = None
        ended = settle(cloud, http, jobs)
        last = submit(http, "true")
        assert "completed" == wait_for(http, last, "completed", timeout_s=30)["state"]
        row = agents(platform, "remote")["remote"]
        assert (True, None) == (row["alive"], row["trouble"])
        get = partial(http, "GET")
        cases = {
            job_id: Case(
                TICKS,
                restartable,
                ended[job_id]["state"],
                heard.runs(job_id),
                output_of(get, job_id),
                shim_kills=0,
            )
            for job_id, (_, restartable) in jobs.items()
        }
        cloud.stop_agent("remote")
    _, told = count(cases)
    assert not told, [(line, jobs[line[:26]], ended[line[:26]]["timeline"]) for line in told]
    assert road.hit > len(FAULTS)
    print(f"{len(jobs)} jobs, {road.hit} requests met a fault, ", end="")
    print(f"{sum(job['attempt'] - 1 for job in ended.values())} attempts were lost")
