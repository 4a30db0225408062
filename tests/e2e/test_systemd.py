"""An agent under systemd with AWS and many jobs: what tests/kernel/test_systemd.py does, in full.

By hand, because emulated each start of the agent takes half a minute:
`JOBLANE_SYSTEMD_JOBS=20 .venv/bin/pytest -s tests/e2e/test_systemd.py`
"""

import os
import time
from collections.abc import Iterator

import pytest

from infra.agent_install import AGENT_UNIT
from scripts.local.cloud import Cloud
from scripts.local.deploy import BIN
from tests.e2e.conftest import Http
from tests.kernel import vm
from tests.kernel.instance import NAME, Instance
from tests.support.deployed import agents, output, starts, submit, until, wait_for

JOBS = int(os.environ.get("JOBLANE_SYSTEMD_JOBS", "0"))
EGRESS_EVERY = 10

SLOW_S = 300

TICK = "n=0; while [ ! -e /tmp/stop ]; do n=$((n+1)); echo tick $n; sleep 10; done; echo end $n"

pytestmark = [
    pytest.mark.skipif(JOBS == 0, reason="by hand, with JOBLANE_SYSTEMD_JOBS"),
    pytest.mark.timeout(3600),
]


@pytest.fixture(name="instance")
def _instance(cloud: Cloud) -> Iterator[Instance]:
    """An instance without an agent yet, and no other agent that could take jobs."""
    if lacking := vm.missing():
        pytest.fail(lacking)
    cloud.stop_agents()
    environment = cloud.ministack.environment()
    environment["AWS_ENDPOINT_URL"] = cloud.endpoint.replace("127.0.0.1", vm.HOST)
    with vm.booted(SLOW_S) as machine:
        yield Instance(machine, f"{BIN}/python", environment, threads=JOBS)


def wait_for_beat(instance: Instance, platform: Http) -> None:
    """Wait for a heartbeat that is later than now."""
    after = instance("date -u +%FT%T.%3NZ").strip()
    deadline = time.monotonic() + SLOW_S
    while time.monotonic() < deadline:
        if any(row["last_seen_at"] > after for row in agents(platform, NAME).values()):
            return
        time.sleep(0.5)
    raise AssertionError(instance("cat /run/agent.log"))


def test_no_restart_interrupts_a_job(instance: Instance, http: Http, platform: Http):
    settings = platform("GET", "/v1/queues/default/settings")
    changed = platform(
        "PUT",
        "/v1/queues/default/settings",
        json={"run_jobs": True, "threads": JOBS, "cluster_threads": None},
        headers={"If-Match": settings.headers["ETag"]},
    )
    assert changed.status_code == 200, changed.text
    instance.install("one")
    wait_for_beat(instance, platform)
    jobs = [
        submit(
            http,
            "sh",
            "-c",
            TICK,
            timeout_s=7200,
            resources={"memory_mb": 16},
            network="none" if n % EGRESS_EVERY else "egress",
        )
        for n in range(JOBS)
    ]
    for job_id in jobs:
        wait_for(http, job_id, "active", timeout_s=SLOW_S)
    for how in (
        f"systemctl restart {AGENT_UNIT}",
        f"kill -9 $(systemctl show --value -p MainPID {AGENT_UNIT})",
        f"systemctl kill --signal KILL {AGENT_UNIT}",
    ):
        began = time.monotonic()
        instance(how)
        wait_for_beat(instance, platform)
        print(f"{how}: a heartbeat after {time.monotonic() - began:.0f} s")
    instance.install("two")
    wait_for_beat(instance, platform)
    assert len(instance.rooms()) == 2

    instance.tell_jobs_to_stop()
    for job_id in jobs:
        job = wait_for(http, job_id, "completed", timeout_s=SLOW_S)
        assert (1, 1, [NAME]) == (job["epoch"], job["attempt"], starts(job))
        said = output(http, job_id)["stdout"]
        count = len(said) - 1
        assert [*(f"tick {n + 1}" for n in range(count)), f"end {count}"] == said
        assert job["usage"]["peak_memory_bytes"] > 0
    until(lambda: len(instance.rooms()) == 1, SLOW_S)
    assert "jl" not in instance("ip -br link")
    assert instance("nft list tables").count("joblane-") == 1
