"""Recovery on the deployed stacks: a real HTTP condition that goes down and comes back."""

import signal
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import httpx
import pytest

from joblane.aws.clients import LONG_POLL, Clients
from joblane.aws.condition.conditions import ConditionStore
from joblane.aws.condition.executions import Executions
from joblane.aws.condition.places import ConditionPlaces
from joblane.aws.condition.requirements import Requirements
from joblane.aws.job.jobs import JobStore
from joblane.aws.queue.lanes import LaneQueue
from joblane.condition.state import Phase
from joblane.deployment.descriptor import Descriptor
from joblane.deployment.names import descriptor_name, recovery_name, table_name
from joblane.job.message import Message
from joblane.job.moves import AttemptFacts
from joblane.service.condition.supervisor import ConditionSupervisor
from joblane.state.lifecycle import Outcome, State
from joblane.state.timeline import Step
from scripts.local.cloud import DEPLOYMENT, Cloud
from tests.e2e.conftest import Http, Run
from tests.sandbox.running import STOPS, go_on, marker
from tests.support.deployed import submit, until, wait_for
from tests.support.http_server import Quiet, serving
from tests.support.jobs import named

SCALE = 0.05
"""Of the state machine's waits: the first 10 s take half a second."""


class Service:
    """An HTTP service that is well or not."""

    def __init__(self) -> None:
        self.well = False
        self.asked = 0
        self.well_at_first = 0
        """How many requests find it well before it is not."""
        service = self

        class Handler(Quiet, BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                service.asked += 1
                well = service.well or service.asked <= service.well_at_first
                self.send_response(200 if well else 503)
                self.end_headers()

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)

    @property
    def condition(self) -> str:
        """The condition that it is well."""
        return f"http:http://127.0.0.1:{self.server.server_port}/health"


@pytest.fixture(name="service")
def _service() -> Iterator[Service]:
    service = Service()
    with serving(service.server):
        yield service


@pytest.fixture(name="hurry")
def _hurry(cloud: Cloud) -> Iterator[None]:
    """Shorten the waits of the state machine, and stop all agents: the test takes the jobs."""
    cloud.stop_agents()
    for scale in (SCALE, 1.0):
        answer = httpx.post(
            f"{cloud.endpoint}/_ministack/config",
            json={"stepfunctions._SFN_WAIT_SCALE": scale},
            headers=cloud.ministack.headers(),
        )
        assert "stepfunctions._SFN_WAIT_SCALE" in answer.text
        if scale == SCALE:
            yield


class Blocking:
    """What an agent does with a job that exits 75."""

    def __init__(self, clients: Clients) -> None:
        parameter = clients.make("ssm").get_parameter(Name=descriptor_name(DEPLOYMENT))
        descriptor = Descriptor.model_validate_json(parameter["Parameter"]["Value"])
        self._lane = LaneQueue(clients.make("sqs"), descriptor.lane_url("default", "default"))
        self._jobs = JobStore(clients.make("dynamodb"), descriptor.jobs_table)
        dynamodb, table = clients.make("dynamodb"), table_name(DEPLOYMENT, "conditions")
        self.conditions = ConditionStore(dynamodb, table)
        executions = Executions(clients.make("stepfunctions"), descriptor.recovery_arn)
        self._supervisor = ConditionSupervisor(
            self.conditions, executions, ConditionPlaces(dynamodb, table), descriptor.limits
        )

    def block(self, condition: str, *job_ids: str) -> None:
        """Claim these jobs, block them, and let go of their messages."""
        waiting = set(job_ids)
        while waiting:
            for received in self._lane.receive(10, 1):
                job_id = Message.decode(received.body).job_id
                if job_id not in waiting:
                    continue  # left by another test, of a job that was deleted or has ended
                now_ms = int(time.time() * 1000)
                head = self._jobs.claim(named(job_id), "by-hand", now_ms)
                step = Step(State.BLOCKED, now_ms, head.attempt - 1, "exit code 75", records=0)
                head = self._jobs.block(
                    head, step, condition, AttemptFacts(Outcome.BLOCKED, exit_code=75)
                )
                self._supervisor.join(condition, head, now_ms)
                self._lane.delete(received.receipt)
                waiting.remove(job_id)


def executions(clients: Clients, cloud: Cloud) -> list[Any]:
    """Every execution of the recovery state machine."""
    stepfunctions = clients.make("stepfunctions")
    (machine,) = [
        m["stateMachineArn"]
        for m in stepfunctions.list_state_machines()["stateMachines"]
        if m["name"] == recovery_name(DEPLOYMENT)
    ]
    assert cloud.endpoint
    return list(stepfunctions.list_executions(stateMachineArn=machine)["executions"])


@pytest.mark.usefixtures("hurry")
def test_blocked_jobs_go_on_when_the_service_is_back(
    cloud: Cloud, clients: Clients, http: Http, service: Service
):
    before = len(executions(clients, cloud))
    jobs = [submit(http, "true") for _ in range(3)]
    by_hand = Blocking(clients)
    by_hand.block(service.condition, *jobs)
    until(lambda: service.asked >= 3)
    assert ["blocked"] * 3 == [http("GET", f"/v1/jobs/{job}").json()["state"] for job in jobs]
    listed = {c["name"]: c for c in http("GET", "/v1/conditions?limit=100").json()["entries"]}
    assert (3, False) == tuple(listed[service.condition][name] for name in ("waiting", "more"))
    assert "answers 503" == listed[service.condition]["reason"]
    row = by_hand.conditions.get(service.condition)
    assert row is not None
    assert ("answers 503", True) == (row.why, row.blocks)
    assert before + 1 == len(executions(clients, cloud))
    service.well = True
    for job_id in jobs:
        job = wait_for(http, job_id, "pending")
        assert "released by its condition (answers 200)" in job["reason"]
        assert 0 == job["attempt"]
    until(lambda: phase(by_hand, service.condition) is Phase.CLOSED)
    listed = {c["name"]: c for c in http("GET", "/v1/conditions?limit=100").json()["entries"]}
    assert service.condition not in listed
    cloud.start_agent("after-recovery", isolation="namespaces")
    for job_id in jobs:
        job = wait_for(http, job_id, "completed")
        assert ["pending", "active", "blocked", "pending", "active", "completed"] == [
            step["state"] for step in job["timeline"]
        ]
    cloud.stop_agent("after-recovery")
    until(lambda: executions(clients, cloud)[0]["status"] == "SUCCEEDED")


@pytest.mark.usefixtures("hurry")
def test_a_condition_that_may_not_be_tested_fails_its_jobs_with_the_reason(
    clients: Clients, http: Http
):
    job_id = submit(http, "true")
    Blocking(clients).block("http:http://169.254.169.254/latest/meta-data/", job_id)
    job = wait_for(http, job_id, "failed")
    assert "does not allow conditions to reach" in job["reason"]


@pytest.mark.usefixtures("hurry")
def test_an_execution_that_is_aborted_is_followed_by_another(
    cloud: Cloud, clients: Clients, http: Http, service: Service
):
    job_id = submit(http, "true")
    by_hand = Blocking(clients)
    by_hand.block(service.condition, job_id)
    until(lambda: service.asked >= 1)
    running = [e for e in executions(clients, cloud) if e["status"] == "RUNNING"]
    assert 1 == len(running)
    clients.make("stepfunctions").stop_execution(executionArn=running[0]["executionArn"])
    service.well = True
    wait_for(http, job_id, "pending")
    assert phase(by_hand, service.condition) is not None


def test_before_its_start_a_job_can_be_tested_for(clients: Clients, service: Service):
    """The call that an agent makes for a job with `requires`."""
    lambdas = clients.make("lambda", LONG_POLL)
    gate = Requirements(lambdas, recovery_name(DEPLOYMENT))
    blocking = gate.find_blocking([service.condition])
    assert blocking is not None
    assert (service.condition, "answers 503", False) == (
        blocking.condition,
        blocking.why,
        blocking.untestable,
    )
    service.well = True
    assert None is gate.find_blocking([service.condition])


def phase(by_hand: Blocking, condition: str) -> Phase | None:
    """Whether a condition is taken care of."""
    row = by_hand.conditions.get(condition)
    return None if row is None else row.phase


@pytest.mark.parametrize("target", [None, "host:requires"])
@pytest.mark.usefixtures("hurry")
def test_a_real_job_does_not_start_before_what_it_requires_is_there(
    cloud: Cloud, http: Http, service: Service, target: str | None
):
    cloud.start_agent("requires")
    job_id = submit(http, "echo", "at last", requires=[service.condition], target=target)
    job = wait_for(http, job_id, "blocked")
    assert service.condition in job["reason"]
    service.well = True
    job = wait_for(http, job_id, "completed")
    assert ["pending", "active", "blocked", "pending", "active", "completed"] == [
        step["state"] for step in job["timeline"]
    ]
    assert 1 == job["attempt"]


@pytest.mark.usefixtures("hurry")
def test_a_real_job_that_exits_as_blocked_comes_back_until_it_can_run(
    cloud: Cloud, http: Http, joblane: Run
):
    """And its output shows each start, while it is open."""
    cloud.start_agent("blocked")
    mark = marker()
    script = f"echo begun; trap 'exit 75' USR1; {STOPS} # {mark}"
    once, codes = {"max_attempts": 1}, {"blocked": [75]}
    job_id = submit(http, "sh", "-c", script, retry=once, exit_codes=codes)
    go_on(mark, signal.SIGUSR1)
    job = wait_for(http, job_id, "blocked")
    assert "exit code 75: waits for app:default" in job["reason"]
    for start in (2, 3):
        go_on(mark, signal.SIGUSR1)
        until(lambda: http("GET", f"/v1/jobs/{job_id}").json()["epoch"] > start)  # noqa: B023
        assert b"begun\n" * start == joblane("logs", job_id).stdout[: 6 * start]
        assert joblane("logs", "--tail", "2", job_id).stdout.startswith(b"begun\nbegun\n")
    go_on(mark)
    job = wait_for(http, job_id, "completed")
    entries = http("GET", f"/v1/jobs/{job_id}/logs").json()["entries"]
    assert [(n, 1, 1) for n in (1, 2, 3, 4)] == [
        (entry["epoch"], entry["attempt"], entry["seq"]) for entry in entries
    ]
    assert (1, 0) == (job["attempt"], job["exit_code"])


@pytest.mark.usefixtures("hurry")
def test_an_application_that_is_declared_down_holds_a_real_job(cloud: Cloud, http: Http):
    path = "/v1/conditions/app:ledger"
    declared = http("PUT", path, json={"state": "down", "reason": "migration"})
    assert (200, "down") == (declared.status_code, declared.json()["state"])
    listed = http("GET", "/v1/conditions").json()
    (down,) = [app for app in listed["down"] if app["name"] == "app:ledger"]
    assert "app:ledger" not in {entry["name"] for entry in listed["entries"]}
    assert ("migration", False) == (down["reason"].partition(" (")[0], down["all_tenants"])
    cloud.start_agent("declared")
    job_id = submit(http, "true", requires=["app:ledger"])
    job = wait_for(http, job_id, "blocked")
    assert "app:ledger" == job["condition"]
    assert "waits for app:ledger: declared down: migration" in job["reason"]

    def waiting() -> list[int]:
        listed = http("GET", "/v1/conditions?limit=100").json()["entries"]
        return [entry["waiting"] for entry in listed if entry["name"] == "app:ledger"]

    until(lambda: waiting() == [1])  # a job is in the list a moment after it is blocked
    http("PUT", path, json={"state": "up"})
    wait_for(http, job_id, "completed")


@pytest.mark.usefixtures("hurry")
def test_a_real_job_waits_for_the_condition_that_it_names(
    cloud: Cloud, http: Http, service: Service
):
    cloud.start_agent("named")
    service.well_at_first = 1  # when it is tested before the start
    mark = marker()
    said = f"""echo '{{"block": "{service.condition}"}}' >&3; read answer <&3; echo "$answer" """
    script = f"blocks() {{ {said}; exit 75; }}; trap blocks USR1; {STOPS} # {mark}"
    once = {"max_attempts": 1}
    job_id = submit(http, "sh", "-c", script, retry=once, requires=[service.condition])
    go_on(mark, signal.SIGUSR1)
    job = wait_for(http, job_id, "blocked")
    assert service.condition == job["condition"]
    assert f"the job named what it waits for: {service.condition}" in job["reason"]
    until(lambda: service.asked >= 2)
    assert "blocked" == http("GET", f"/v1/jobs/{job_id}").json()["state"]
    service.well = True
    go_on(mark)
    job = wait_for(http, job_id, "completed")
    assert (1, 0) == (job["attempt"], job["exit_code"])
    page = http("GET", f"/v1/jobs/{job_id}/logs").json()
    assert ['{"ok": true}\n'] == [entry["text"] for entry in page["entries"]]


@pytest.mark.usefixtures("hurry")
def test_a_job_without_network_has_no_address_of_its_choice_fetched(
    cloud: Cloud, clients: Clients, http: Http, service: Service
):
    """Its secret would leave with the test of the condition that it names."""
    before = {execution["name"] for execution in executions(clients, cloud)}
    cloud.start_agent("silent")
    name = f"{service.condition}?token=$SECRET"
    said = f"""echo "{{\\"block\\": \\"{name}\\"}}" >&3; read answer <&3; echo "$answer" """
    fields = {"network": "none", "retry": {"max_attempts": 1}, "exit_codes": {"blocked": [75]}}
    job_id = submit(http, "sh", "-c", f"{said}; exit 75", env={"SECRET": "s3cret"}, **fields)
    job = wait_for(http, job_id, "blocked")
    assert ("app:default", "none") == (job["condition"], job["network"])
    # Its list is tested and lets it go, so whatever was to be fetched has been. It may have been
    # let go and have blocked again when `job` was read, and is let go later each time.
    until(
        lambda: any(
            step["reason"].startswith("released by its condition")
            for step in http("GET", f"/v1/jobs/{job_id}").json()["timeline"]
        )
    )
    assert 0 == service.asked
    new = {execution["name"] for execution in executions(clients, cloud)} - before
    assert {"app"} == {name.partition("-")[0] for name in new}  # it may have blocked again
    page = http("GET", f"/v1/jobs/{job_id}/logs").json()
    assert "must be listed in the job's requires" in page["entries"][0]["text"]
    http("POST", f"/v1/jobs/{job_id}/cancel")


@pytest.mark.usefixtures("hurry")
def test_a_job_does_not_wait_behind_all_jobs_of_another_tenant(
    clients: Clients, http: Http, as_other: Http, service: Service
):
    """A test releases ten: nine of the ten that blocked first, and the one of the other tenant."""
    ten = [submit(http, "true") for _ in range(10)]
    by_hand = Blocking(clients)
    by_hand.block(service.condition, *ten)
    late = submit(as_other, "true")
    by_hand.block(service.condition, late)
    service.well = True
    released = [
        wait_for(tenant, job_id, "pending")["timeline"][-1]["at"]
        for tenant, job_id in [(as_other, late), *((http, each) for each in ten)]
    ]
    assert released[0] < max(released)
