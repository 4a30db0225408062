"""Limits of one tenant's running jobs and output, which agents keep."""

import signal
import time
from collections.abc import Iterator
from typing import Any

import pytest

from ec2_agent.agent import EX_TEMPFAIL
from joblane.aws.clients import Clients
from joblane.aws.fleet.agents import AgentStore
from joblane.aws.queue.settings import SettingsStore
from joblane.deployment.names import table_name
from joblane.service.queue.running_shares import RunningShares
from joblane.state.lease import Heartbeat
from scripts.local.cloud import DEPLOYMENT, Cloud
from tests.e2e.conftest import Http
from tests.support.deployed import submit, until, wait_for, wait_for_job
from tests.support.paced import start_paced

TENANT = "limited"
RUNNING = 3
"""Its `jobs_running` in scripts/local/joblane.toml; its `output_mb_per_job` is 1."""

LATER_MS = 600_000
"""Shares are made as if ten minutes later: the agents of other tests are gone by then, and requeue
replaces no shares by earlier ones."""


@pytest.fixture(name="limited")
def _limited(cloud: Cloud) -> Iterator[Http]:
    """The API as a tenant with low limits."""
    http = Http(cloud.url, cloud.token(TENANT))
    yield http
    http.close()


class OneAgent(AgentStore):
    """The agents as if only one were there, with the row that the test has written.

    When it runs it writes rows of its own, whose leases are over by the time of the shares.
    """

    row: Heartbeat

    def read_all(self) -> Iterator[Heartbeat]:
        """Read that row."""
        yield self.row


def share_out(clients: Clients, name: str, limit: int = RUNNING, times: int = 1) -> None:
    """Give an agent that is about to start all of the tenant's limit, as requeue does.

    `times` rises from one call to the next.
    """
    dynamodb = clients.make("dynamodb")
    now_ms = int(time.time() * 1000)
    queues = ("default", "bulk")
    agents = OneAgent(dynamodb, table_name(DEPLOYMENT, "agents"))
    agents.row = Heartbeat(name, now_ms, now_ms, 6, 0, queues, "full", "1", lease_s=3600)
    agents.beat(agents.row)
    settings = SettingsStore(dynamodb, table_name(DEPLOYMENT, "settings"))
    limits, later_ms = {TENANT: limit}, times * LATER_MS
    RunningShares(settings, agents, dict.fromkeys(queues, ()), limits).refresh(now_ms + later_ms)
    _, shares = settings.get_for_agent(queues)
    assert limit == shares.of(TENANT, RUNNING, name, now_ms).share


def running(http: Http, ids: list[str]) -> list[str]:
    """The jobs that run now."""
    return [i for i in ids if "active" == http("GET", f"/v1/jobs/{i}").json()["state"]]


def wait_until_limited(http: Http, job_id: str) -> dict[str, Any]:
    """Wait until a job says that it waits for jobs of its tenant."""
    return wait_for_job(http, job_id, lambda job: "jobs_running" in job["reason"])


def whole_output(http: Http, job_id: str) -> list[dict[str, Any]]:
    """All records of an ended job, a page of 1 MB at a time."""
    path = f"/v1/jobs/{job_id}/logs"
    page = http("GET", path, params={"limit": 1000}).json()
    found: list[dict[str, Any]] = page["entries"]
    while not page["complete"]:
        page = http("GET", path, params={"limit": 1000, "next": page["next"]}).json()
        found += page["entries"]
    return found


def test_a_tenant_at_its_limit_of_running_jobs_waits_and_others_go_on(
    quiet: Cloud, clients: Clients, http: Http, limited: Http
):
    """Twenty jobs of one tenant, in the high lane, before one of another in the default lane."""
    share_out(clients, "sharing")
    start_paced(quiet, "sharing", threads=6)
    ids = [submit(limited, "sleep", "600", priority="high") for _ in range(20)]
    other = submit(http, "true")
    wait_for(http, other, "completed")
    first = [wait_for(limited, i, "active")["id"] for i in ids[:RUNNING]]
    assert first == running(limited, ids)
    waiting = wait_until_limited(limited, ids[RUNNING])
    assert ("pending", 0) == (waiting["state"], waiting["epoch"])
    assert (
        f"waits for jobs of tenant {TENANT} to end, of which {RUNNING} may run at once "
        "(jobs_running); agent sharing runs 3 of its share of 3"
    ) == waiting["reason"]

    assert EX_TEMPFAIL == quiet.kill_agent("sharing", signal.SIGHUP)
    start_paced(quiet, "sharing", threads=6)  # adopts the three
    wait_for(http, submit(http, "true"), "completed")
    assert first == running(limited, ids)

    limited("POST", f"/v1/jobs/{first[0]}/cancel")
    wait_for(limited, first[0], "cancelled")
    now = until(lambda: len(found := running(limited, ids)) == RUNNING and found)
    assert set(first[1:]) < set(now)
    for job_id in ids:
        limited("POST", f"/v1/jobs/{job_id}/cancel")
    for job_id in now:
        wait_for(limited, job_id, "cancelled")

    script = "head -c 700000 /dev/zero | tr '\\0' x; exit 1"
    retry = {"max_attempts": 3, "backoff_s": [0]}
    chatty = submit(limited, "sh", "-c", script, retry=retry)
    wait_for(limited, chatty, "dead")
    read = whole_output(limited, chatty)
    mark = "[output beyond 1 MB in all attempts of a job is dropped: output_mb_per_job]\n"
    assert [(2, mark), (3, mark)] == [
        (entry["attempt"], entry["text"]) for entry in read if entry["stream"] == "joblane"
    ]
    stored = sum(len(entry["text"]) for entry in read if entry["stream"] == "stdout")
    assert 1 << 20 <= stored <= (1 << 20) + 32 * 1024
    quiet.stop_agent("sharing")


def test_a_paused_tenant_waits_in_a_shared_queue_and_others_go_on(
    quiet: Cloud, clients: Clients, http: Http, limited: Http
):
    share_out(clients, "pausing", 0, times=2)
    start_paced(quiet, "pausing", threads=6)
    job_id = submit(limited, "true", priority="high")
    wait_for(http, submit(http, "true"), "completed")
    waiting = wait_until_limited(limited, job_id)
    assert ("pending", 0) == (waiting["state"], waiting["epoch"])
    assert waiting["reason"].startswith(f"tenant {TENANT} is paused: ")
    share_out(clients, "pausing", times=3)
    wait_for(limited, job_id, "completed")
