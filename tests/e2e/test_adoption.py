"""An agent that is killed while jobs run adopts them when it starts again."""

import json
import os
import signal
import time
from pathlib import Path

import pytest

from ec2_agent.agent import EX_TEMPFAIL
from scripts.local.cloud import Cloud
from tests.e2e.conftest import Http
from tests.sandbox.running import STOPS, alive, go_on, marker
from tests.support.deployed import output, starts, submit, until, wait_for, wait_until_started
from tests.support.paced import start_paced

COUNT = "i=0; while [ $i -lt {n} ]; do i=$((i+1)); echo line $i; echo err $i >&2; sleep 0.1; done"


pytestmark = pytest.mark.usefixtures("quiet")  # no other agent could take the jobs


def kill(cloud: Cloud, name: str) -> None:
    """Kill an agent as the kernel does when memory is short."""
    cloud.kill_agent(name)


def hand_over(cloud: Cloud, name: str) -> None:
    """End an agent as a restart of its unit does."""
    assert EX_TEMPFAIL == cloud.kill_agent(name, signal.SIGHUP)


def test_running_jobs_are_adopted_with_every_line_of_their_output(cloud: Cloud, http: Http):
    cloud.start_agent("phoenix", threads=4)
    script = COUNT.format(n=80) + '; echo \'{"block": "app:x"}\' >&3; read a <&3; echo "$a"; exit 7'
    jobs = [submit(http, "sh", "-c", script, retry={"max_attempts": 1}) for _ in range(3)]
    wait_until_started(cloud.run_dir, jobs)
    for end in (kill, hand_over):
        time.sleep(1)
        end(cloud, "phoenix")
        time.sleep(0.5)
        cloud.start_agent("phoenix", threads=4)
    for job_id in jobs:
        job = wait_for(http, job_id, "dead")
        assert (7, ["phoenix"], 1) == (job["exit_code"], starts(job), job["epoch"])
        lines = output(http, job_id)
        wanted = [f"line {n}" for n in range(1, 81)]
        assert [*wanted, '{"ok": true}'] == lines["stdout"]
        assert [f"err {n}" for n in range(1, 81)] == lines["stderr"]
    deadline = time.monotonic() + 10
    while left := jobs_on_disk(cloud):  # taken away once their output has arrived
        assert time.monotonic() < deadline, left
        time.sleep(0.05)


def test_what_ended_while_no_agent_was_there_is_reported(cloud: Cloud, http: Http):
    cloud.start_agent("phoenix")
    mark = marker()
    job_id = submit(http, "sh", "-c", f"{STOPS} echo done # {mark}", restartable=False)
    wait_for(http, job_id, "active")
    wait_for_shims(cloud, 1)  # claimed is not started yet
    kill(cloud, "phoenix")
    go_on(mark)
    deadline = time.monotonic() + 10
    while not list(cloud.run_dir.glob("state/*/phoenix/jobs/*/exit")):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    cloud.start_agent("phoenix")
    job = wait_for(http, job_id, "completed")
    assert (0, 1) == (job["exit_code"], job["epoch"])
    assert ["done"] == output(http, job_id)["stdout"]


def test_a_job_whose_shim_was_killed_is_lost_and_tried_again(cloud: Cloud, http: Http):
    cloud.start_agent("phoenix")
    mark = marker()
    script = f'test "$JOBLANE_ATTEMPT" = 2 || sleep {mark}'
    job_id = submit(http, "sh", "-c", script)
    once = submit(http, "sleep", mark, restartable=False)
    for each in (job_id, once):
        wait_for(http, each, "active")
    for pid in wait_for_shims(cloud, 2):
        os.kill(pid, signal.SIGKILL)
    job = wait_for(http, job_id, "completed")
    assert 2 == job["attempt"]
    assert "its shim was killed" in str(job["timeline"])
    assert "not restartable" in wait_for(http, once, "failed")["reason"]
    assert [] == alive(mark)


def test_a_job_that_was_cancelled_while_no_agent_was_there_ends_when_it_comes(
    cloud: Cloud, http: Http
):
    cloud.start_agent("phoenix")
    mark = marker()
    job_id = submit(http, "sleep", mark)
    wait_for(http, job_id, "active")
    wait_for_shims(cloud, 1)  # claimed is not started yet
    kill(cloud, "phoenix")
    http("POST", f"/v1/jobs/{job_id}/cancel")
    cloud.start_agent("phoenix")
    wait_for(http, job_id, "cancelled")
    assert [] == alive(mark)


def test_a_job_that_somebody_else_has_taken_over_is_killed_and_not_reported(
    cloud: Cloud, http: Http, platform: Http
):
    cloud.start_agent("phoenix")
    mark = marker()
    script = f'test "$JOBLANE_ATTEMPT" = 2 && exit 0; sleep {mark}'
    job_id = submit(http, "sh", "-c", script)
    wait_for(http, job_id, "active")
    wait_for_shims(cloud, 1)  # claimed is not started yet
    kill(cloud, "phoenix")
    # As its own agent would after a lease that was lost: the shim cannot know of it yet.
    (folder,) = cloud.run_dir.glob("state/*/phoenix/jobs/*")
    spec = folder / "spec"
    spec.write_text(spec.read_text().replace('"epoch":1', '"epoch":7'))
    start_paced(cloud, "phoenix")
    deadline = time.monotonic() + 10
    while alive(mark):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert "active" == http("GET", f"/v1/jobs/{job_id}").json()["state"]
    until(lambda: not platform("GET", "/v1/agents/phoenix").json()["jobs"])  # says a heartbeat
    cloud.show_again([job_id])
    assert 2 == wait_for(http, job_id, "completed")["attempt"]


def jobs_on_disk(cloud: Cloud) -> list[Path]:
    return list(cloud.run_dir.glob("state/*/phoenix/jobs/*"))


def shims_of(cloud: Cloud) -> list[int]:

    return [
        json.loads(file.read_text())["pid"]
        for file in cloud.run_dir.glob("state/*/phoenix/jobs/*/shim")
    ]


def wait_for_shims(cloud: Cloud, number: int) -> list[int]:
    """Wait until so many jobs have been started and given to their shims."""
    deadline = time.monotonic() + 20
    while len(shims := shims_of(cloud)) < number:
        assert time.monotonic() < deadline
        time.sleep(0.02)
    return shims
