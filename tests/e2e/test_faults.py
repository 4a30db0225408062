"""An agent between whom and AWS everything goes wrong, while jobs run.

Each fault lasts some seconds here, and then messages are shown again, as SQS may do; with
JOBLANE_FAULT_S=60 each lasts a minute, and nobody helps.
"""

import os
import time
from collections import Counter
from collections.abc import Iterable
from typing import Any

import pytest

from scripts.local.cloud import Cloud
from tests.e2e.conftest import Http
from tests.e2e.test_jobs import submit
from tests.support.proxy import FAULTS, Fault, proxy

LONG = os.environ.get("JOBLANE_FAULT_S")
FAULT_S = float(LONG or 3)
JOBS = 6
"""Submitted for each fault: two before it, which then end in it, and the rest during it."""
RESTED_S = 200
"""A message that an agent received without learning of it shows again after two minutes."""
SHOWN_AGAIN_S = 3.0


def outputs(http: Http, job_id: str) -> Counter[str]:
    """How often each line was written, over all attempts."""
    page = http("GET", f"/v1/jobs/{job_id}/logs", params={"limit": 1000}).json()
    text = "".join(record.get("text", "") for record in page["entries"])
    assert page["complete"]
    return Counter(text.split("\n"))


def settle(cloud: Cloud, http: Http, jobs: Iterable[str]) -> dict[str, dict[str, Any]]:
    """Wait for every job's end."""
    ended: dict[str, dict[str, Any]] = {}
    left, ends, shown = set(jobs), time.monotonic() + RESTED_S, 0.0
    while left:
        assert time.monotonic() < ends, f"not ended: {[read(http, job_id) for job_id in left]}"
        if LONG is None and time.monotonic() - shown > SHOWN_AGAIN_S:
            cloud.show_again(left)
            shown = time.monotonic()
        ended |= {job_id: read(http, job_id) for job_id in left}
        left = {job_id for job_id in left if ended[job_id]["state"] not in ("completed", "failed")}
        time.sleep(0.2)
    return ended


def read(http: Http, job_id: str) -> dict[str, Any]:
    job: dict[str, Any] = http("GET", f"/v1/jobs/{job_id}").json()
    return job


@pytest.mark.timeout(len(FAULTS) * (FAULT_S + 5) + RESTED_S + 60)
def test_no_job_is_lost_and_none_runs_twice_at_once(cloud: Cloud, http: Http):
    for name in list(cloud.agents):
        cloud.stop_agent(name)
    jobs: dict[str, tuple[Fault, bool]] = {}

    def begin(fault: Fault, number: int, *, restartable: bool = True) -> None:
        for _ in range(number):
            command = ("sh", "-c", "echo start; sleep 0.7; echo end")
            job_id = submit(http, *command, restartable=restartable)
            jobs[job_id] = fault, restartable

    with proxy(cloud.endpoint, seed=1) as road:
        cloud.start_agent("remote", endpoint=road.url)
        for fault in FAULTS:
            begin(fault, 2)
            time.sleep(0.3)
            road.fault = fault
            begin(fault, JOBS - 3)
            begin(fault, 1, restartable=False)
            time.sleep(FAULT_S)
            road.fault = None
        ended = settle(cloud, http, jobs)
        cloud.stop_agent("remote")
    assert road.hit > len(FAULTS)
    for job_id, job in ended.items():
        fault, restartable = jobs[job_id]
        lines = outputs(http, job_id)
        told = f"{fault}: {job['timeline']}, {lines}"
        assert lines["start"] <= job["epoch"], told
        assert lines["end"] == 1 or not restartable, told
        if restartable:
            assert job["state"] == "completed", told
        else:
            assert lines["start"] <= 1, told
