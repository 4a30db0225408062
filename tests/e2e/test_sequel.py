"""Slots of a key on the local AWS: passed on by the stream, to who waits first, one at a time."""

import itertools
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from joblane.aws.clients import Clients
from joblane.aws.functions import CalledFunction
from joblane.aws.key.keys import KeyStore
from joblane.deployment.names import table_name
from joblane.key.segments import KeyName
from joblane.key.state import KeyState
from joblane.state.lifecycle import ENDED
from scripts.local.cloud import DEPLOYMENT, TENANT, Cloud
from tests.e2e.conftest import Http
from tests.support.deployed import make_due, output, submit, until, wait_for

JOBS = 12
STAMPS = 'date +%s.%N; echo "$JOBLANE_SLOT"; sleep 0.2; date +%s.%N'


def submit_keyed(http: Http, name: str, *command: str, **limits: Any) -> str:
    """Submit a job with a key."""
    return submit(http, *command, concurrency={"key": ["test", name], "max_queued": 50, **limits})


def state(clients: Clients, name: str) -> KeyState:
    """The state of a key."""
    store = KeyStore(clients.make("dynamodb"), table_name(DEPLOYMENT, "keys"))
    return store.get(TENANT, KeyName.of("command", ["test", name]), 0).state


def wait_until_idle(clients: Clients, name: str, timeout_s: float = 10) -> KeyState:
    """Wait until no job has or waits for a slot."""
    found: KeyState = until(lambda: (now := state(clients, name)).idle and now, timeout_s)
    return found


def times(job: dict[str, Any]) -> tuple[float, float]:
    """When a job was claimed, and when it ended."""
    steps = {step["state"]: datetime.fromisoformat(step["at"]) for step in job["timeline"]}
    return steps["active"].timestamp(), steps["completed"].timestamp()


@pytest.mark.usefixtures("agent")
def test_jobs_of_a_key_run_one_after_the_other(http: Http, clients: Clients):
    ids = [submit_keyed(http, "order", "sh", "-c", STAMPS) for _ in range(JOBS)]
    jobs = [wait_for(http, job_id, "completed", timeout_s=60) for job_id in ids]
    ran = []
    for job_id in ids:
        began, slot, ended = output(http, job_id)["stdout"]
        grant, epoch = map(int, slot.split("."))
        assert 1 == epoch
        ran.append((grant, float(began), float(ended)))
    # In the order of their submission, each with the next grant, never two at once.
    assert ran == sorted(ran)
    for before, after in itertools.pairwise(ran):
        assert before[0] + 1 == after[0]
        assert before[2] < after[1]
    spans = list(map(times, jobs))
    waits = [after[0] - before[1] for before, after in itertools.pairwise(spans)]
    print("from one end to the next start, ms:", sorted(round(wait * 1000) for wait in waits))
    idle = wait_until_idle(clients, "order")
    assert JOBS - 1 >= idle.queued_total > 0


def test_jobs_that_are_deleted_or_cancelled_leave_their_places(
    quiet: Cloud, http: Http, clients: Clients
):
    first, second, third, fourth, last = (submit_keyed(http, "gone", "true") for _ in range(5))
    assert [first] == list(state(clients, "gone").active)
    assert http("DELETE", f"/v1/jobs/{first}").is_success
    assert http("POST", f"/v1/jobs/{third}/cancel").is_success
    assert http("DELETE", f"/v1/jobs/{fourth}").is_success
    pending = wait_for(http, second, "pending")
    assert "its key has a free slot" in pending["reason"]
    quiet.start_agent("local", threads=4)
    wait_for(http, second, "completed")
    wait_for(http, last, "completed")
    wait_until_idle(clients, "gone")
    assert third not in {first, second}
    assert "cancelled" == wait_for(http, third, *ENDED)["state"]


def test_a_scheduled_job_takes_its_place_when_it_is_due(quiet: Cloud, http: Http, clients: Clients):
    first = submit_keyed(http, "due", "true")
    later = (datetime.now(UTC) + timedelta(hours=1)).strftime("%Y-%m-%dT%H:%M:%SZ")
    due = submit(http, "true", concurrency={"key": ["test", "due"], "max_queued": 1}, run_at=later)
    assert "scheduled" == http("GET", f"/v1/jobs/{due}").json()["state"]
    make_due(clients, due)
    # In place of its schedule, a minute.
    CalledFunction(lambda: clients.make("lambda"), f"{DEPLOYMENT}-requeue")({})
    job = http("GET", f"/v1/jobs/{due}").json()
    assert "waiting" == job["state"]
    assert "its run_at has come" in job["reason"]
    quiet.start_agent("local", threads=4)
    wait_for(http, first, "completed")
    wait_for(http, due, "completed")
    wait_until_idle(clients, "due")


@pytest.mark.usefixtures("agent")
def test_a_retry_keeps_the_slot_and_several_slots_are_used_at_once(http: Http, clients: Clients):
    again = {"max_attempts": 2, "backoff_s": [0]}
    first = submit(
        http,
        *("sh", "-c", 'echo "$JOBLANE_SLOT"; test "$JOBLANE_ATTEMPT" -gt 1'),
        concurrency={"key": ["test", "again"], "max_queued": 9, "max_active": 2},
        retry=again,
    )
    others = [submit_keyed(http, "again", "true", max_active=2, max_queued=9) for _ in range(3)]
    for job_id in (first, *others):
        wait_for(http, job_id, "completed")
    tokens = [tuple(map(int, line.split("."))) for line in output(http, first)["stdout"]]
    assert (tokens[0][0], 2) == (tokens[1][0], len(tokens))
    assert [1, 2] == [epoch for _, epoch in tokens]
    wait_until_idle(clients, "again")


def test_a_slot_is_passed_on_although_nothing_read_the_stream_when_its_job_ended(
    quiet: Cloud, http: Http, clients: Clients
):
    """As while a mapping is made, at the first deployment and after `cdk destroy` and `deploy`."""
    first, second = (submit_keyed(http, "unread", "true") for _ in range(2))
    functions = clients.make("lambda")
    name = f"{DEPLOYMENT}-sequel"
    (mapping,) = functions.list_event_source_mappings(FunctionName=name)["EventSourceMappings"]
    functions.delete_event_source_mapping(UUID=mapping["UUID"])
    try:
        quiet.start_agent("local", threads=4)
        wait_for(http, first, "completed")
        assert [first] == list(state(clients, "unread").active)
        assert "waiting" == http("GET", f"/v1/jobs/{second}").json()["state"]
    finally:
        functions.create_event_source_mapping(
            FunctionName=name,
            EventSourceArn=mapping["EventSourceArn"],
            StartingPosition=mapping["StartingPosition"],
            BatchSize=mapping["BatchSize"],
            FilterCriteria=mapping["FilterCriteria"],
        )
    wait_for(http, second, "completed")
    wait_until_idle(clients, "unread")
