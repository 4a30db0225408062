"""Count the write units and requests that one job costs; fails when they rise."""

import asyncio
import time
from collections.abc import Callable

import pytest
from aws_lambda_powertools.logging import Logger

from ec2_agent.sandbox.launcher import Launcher
from functions.submission.handler import Settings, build
from joblane.aws.clients import Clients
from joblane.aws.job.jobs import JobStore
from joblane.aws.key.keys import KeyStore
from joblane.aws.queue.lanes import Lanes
from joblane.formats.times import rfc3339
from joblane.job.head import INLINE_SPEC_BYTES, make_head
from joblane.job.moves import AttemptFacts, plan
from joblane.key.decide import End
from joblane.service.key.release import KeyRelease
from joblane.state.lifecycle import Event, Outcome, State
from joblane.state.timeline import Step
from scripts.costs.prices import dollars_per_million
from scripts.costs.usage import JOB as USED
from scripts.costs.usage import output
from tests.support.agents import Parts
from tests.support.aws import DESCRIPTOR, KEYS_TABLE, Cloud, configure
from tests.support.jobs import JOB, named, submission
from tests.support.meter import Meter, item_size
from tests.support.requests import REQUEST_ID, Api
from tests.support.types import store_type

REQUEST_BYTES = len("request") + len(REQUEST_ID)
"""What the head has of the request; in API Gateway an id has 16 characters."""

LONG = {"env": {"LONG": "x" * 900}}
RunOne = Callable[[dict[str, object]], str]


@pytest.fixture(name="api")
def _api(meter: Meter, metered: Clients) -> Api:
    """The submission function, warm: it has read its tenant's figures and what agents can give."""
    api = Api(build(configure(Settings), metered, time.time))
    api("POST", "/v1/jobs/batch", {"jobs": [{"command": []}]})
    assert {"dynamodb.GetItem": 1, "dynamodb.BatchGetItem": 1} == meter.calls
    meter.reset()
    return api


@pytest.fixture(name="run_one")
def _run_one(metered: Clients, api: Api) -> RunOne:
    """A job's whole way: API, lane, claim, sandbox, outcome. Returns its id."""

    def run_one(body: dict[str, object]) -> str:
        status, job = api("POST", "/v1/jobs", body)
        assert 202 == status
        with Launcher(isolation="namespaces", slots=0) as launcher:
            parts = Parts(metered, launcher, name="i-0123456789abcdef0")
            while held := parts.receive():
                head = parts.claim(held)
                assert head is not None
                asyncio.run(parts.attempt(head, held).run())
        return str(job["id"])

    return run_one


def sqs_requests(meter: Meter) -> int:
    """Requests to SQS, but for the last one, which found the lane empty."""
    return sum(n for call, n in meter.calls.items() if call.startswith("sqs.")) - 1


def head_size(aws: Cloud, job_id: str) -> int:
    answer = aws.clients.make("dynamodb").get_item(
        TableName=DESCRIPTOR.jobs_table, Key={"job_id": {"S": job_id}, "sk": {"S": "JOB"}}
    )
    return item_size(answer["Item"])


def test_a_simple_job_costs_four_write_units_no_read_and_three_sqs_requests(
    aws: Cloud, meter: Meter, run_one: RunOne
):
    job_id = run_one({"command": ["true"]})
    head = JobStore(aws.clients.make("dynamodb"), DESCRIPTOR.jobs_table).get(job_id)
    assert head is not None
    assert State.COMPLETED is head.state
    assert (4, 0, 3) == (meter.write_units, meter.reads, sqs_requests(meter))
    assert (4, 0, 3) == (USED.write_units, USED.read_units, USED.sqs_requests)
    assert head_size(aws, job_id) < USED.bytes  # the rest of it is its entry in the index
    price = dollars_per_million(write_units=4, read_units=0, sqs_requests=3)
    print(f"a million simple jobs: ${price:.2f} for tables and lanes")
    assert 4.00 == pytest.approx(price)


def test_a_retry_costs_two_write_units(meter: Meter, run_one: RunOne):
    command = ["sh", "-c", "test $JOBLANE_ATTEMPT -gt 1"]
    run_one({"command": command, "retry": {"max_attempts": 2, "backoff_s": [0]}})
    # The second attempt: received again, its message handed back once, claimed and settled.
    assert (4 + 2, 0, 3 + 2) == (meter.write_units, meter.reads, sqs_requests(meter))


def test_a_job_that_ends_dead_pays_its_place_on_the_list(meter: Meter, run_one: RunOne):
    run_one({"command": ["false"], "retry": {"max_attempts": 1}})
    assert (4 + 1, 0) == (meter.write_units, meter.reads)


def test_waiting_for_a_condition_costs_four_write_units_and_the_start_after_it_one(
    meter: Meter, metered: Clients
):
    jobs = JobStore(metered.make("dynamodb"), DESCRIPTOR.jobs_table)
    jobs.put_new(make_head(JOB, "acme", submission(), 1_795_226_829_005))
    head = jobs.claim(named(JOB), "i-0123456789abcdef0", 1_795_226_829_105)
    before = meter.write_units
    step = Step(State.BLOCKED, 1_795_226_829_205, 0, "exit code 75; waits for http:https://a.b/c")
    jobs.block(head, step, "http:https://a.b/c", AttemptFacts(Outcome.BLOCKED, exit_code=75))
    step = Step(State.PENDING, 1_795_226_929_205, 0, "http:https://a.b/c holds again")
    jobs.unblock(JOB, "http:https://a.b/c", step)
    assert 4 == meter.write_units - before
    jobs.claim(named(JOB), "i-0123456789abcdef0", 1_795_226_929_305)
    assert (5, 0) == (meter.write_units - before, meter.reads)


@pytest.mark.parametrize(
    ("fields", "units", "reads"),
    [({}, 6, 1), ({"command": ["true", "x" * 500]}, 6 + 5, 2)],
    ids=["in its row", "beside its row"],
)
def test_an_edit_costs_six_write_units_and_more_beside_the_row(
    meter: Meter, api: Api, fields: dict[str, object], units: int, reads: int
):
    """The job, its entry in the index of due jobs until its message is sent, and the trail."""
    _, job = api("POST", "/v1/jobs", {"command": ["true"], **fields})
    meter.reset()
    assert 200 == api("PATCH", f"/v1/jobs/{job['id']}", {"priority": "high"})[0]
    print(dict(meter.calls))
    assert (units, reads, 1) == (meter.write_units, meter.reads, meter.calls["sqs.SendMessage"])


def test_a_typed_job_costs_as_many_write_units_as_a_command(
    aws: Cloud, meter: Meter, run_one: RunOne
):
    """Its type is read when it is submitted: the number of the version, each time."""
    job_id = run_one({"type": "sleep", "params": {"ms": 0, "items": [1, 2]}})
    assert (4, 0, 3) == (meter.write_units, meter.reads, sqs_requests(meter))
    head = aws.job(job_id)
    assert ("completed", 2) == (head.state, head.spec.items)


@pytest.mark.parametrize(
    ("fields", "writes", "reads"), [({}, 6, 1), (LONG, 11, 2)], ids=["in its row", "beside it"]
)
def test_an_edit_costs_six_write_units_a_read_and_a_message(
    meter: Meter, api: Api, fields: dict[str, object], writes: int, reads: int
):
    """The row twice, with its entry in `wake`, and the audit trail.

    A submission beside the row is written anew, in a transaction.
    """
    _, job = api("POST", "/v1/jobs", {"command": ["true"], **fields})
    meter.reset()
    assert 200 == api("PATCH", f"/v1/jobs/{job['id']}", {"priority": "high"})[0]
    assert (writes, reads, 1) == (meter.write_units, meter.reads, meter.calls["sqs.SendMessage"])
    meter.reset()
    assert 200 == api("PATCH", f"/v1/jobs/{job['id']}", {"priority": "high"})[0]
    assert 2 == meter.write_units  # the audit trail alone: nothing was changed


def test_submitting_a_typed_job_costs_one_read_more_than_a_command(
    aws: Cloud, meter: Meter, api: Api
):
    store_type(aws)
    body = {"type": "sync-tickets", "params": {"origin": "acme", "tickets": [1]}}
    for reads in (2, 1):  # its definition is kept
        meter.reset()
        assert 202 == api("POST", "/v1/jobs", body)[0]
        assert (2, reads) == (meter.write_units, meter.reads)
    assert {"dynamodb.GetItem": 1, "dynamodb.PutItem": 1, "sqs.SendMessage": 1} == meter.calls


def keyed(**concurrency: object) -> dict[str, object]:
    return {"command": ["true"], "concurrency": {"key": ["customer", "acme"], **concurrency}}


def test_the_admission_of_a_job_with_a_key_costs_five_write_units_and_one_read(
    meter: Meter, api: Api
):
    """And one more the first time in a day: the row of the key enters its index.

    One that waits pays one more, for its entry in the index `attention`, and the first one that
    waits yet another, for the entry of the key in the index `waits`.
    """
    api("POST", "/v1/jobs", keyed(max_queued=3))
    assert (6, 1) == (meter.write_units, meter.reads)
    for units in (5 + 1 + 1, 5 + 1):
        meter.reset()
        assert "waiting" == api("POST", "/v1/jobs", keyed(max_queued=3))[1]["state"]
        assert {"dynamodb.GetItem": 1, "dynamodb.TransactWriteItems": 1} == meter.calls
        assert units == meter.write_units


def test_a_job_that_a_key_refuses_costs_no_write(meter: Meter, api: Api):
    api("POST", "/v1/jobs", keyed())
    meter.reset()
    assert 409 == api("POST", "/v1/jobs", keyed())[0]
    assert {"dynamodb.GetItem": 1, "dynamodb.BatchGetItem": 1} == meter.calls
    meter.reset()
    assert 200 == api("POST", "/v1/jobs", keyed(when_full="coalesce"))[0]
    assert {"dynamodb.GetItem": 2} == meter.calls  # the key, and the job that is there
    assert 0 == meter.write_units


def test_a_job_with_a_key_costs_eight_write_units_and_thirteen_if_it_waited_alone(
    meter: Meter, metered: Clients, api: Api, run_one: RunOne
):
    dynamodb = metered.make("dynamodb")
    jobs = JobStore(dynamodb, DESCRIPTOR.jobs_table)
    lanes = Lanes(metered.make("sqs"), DESCRIPTOR.queue_url_prefix, DESCRIPTOR.name)
    keys = KeyRelease(KeyStore(dynamodb, KEYS_TABLE), jobs, lanes, Logger(), time.time)

    def released(job_id: str) -> None:
        head = jobs.get(job_id)
        assert head is not None
        assert head.key is not None
        assert State.COMPLETED is head.state
        keys.release("acme", head.key, [End(job_id, head.slot)])

    released(run_one(keyed(max_queued=1)))
    meter.reset()
    released(run_one(keyed(max_queued=1)))
    assert 8 == meter.write_units
    meter.reset()
    _, first = api("POST", "/v1/jobs", keyed(max_queued=1))
    _, second = api("POST", "/v1/jobs", keyed(max_queued=1))
    assert ("pending", "waiting") == (first["state"], second["state"])
    for job in (first, second):
        head = jobs.claim(named(job["id"]), "i-0123456789abcdef0", int(time.time() * 1000))
        step = Step(State.COMPLETED, head.timeline[-1].at_ms, 1, "exit code 0")
        jobs.settle(head, step, AttemptFacts(Outcome.SUCCEEDED, exit_code=0))
        released(job["id"])
    assert 8 + 13 == meter.write_units


def test_a_deadline_costs_its_row_in_the_index(meter: Meter, run_one: RunOne):
    run_one({"command": ["true"], "deadline": "2100-01-01T00:00:00Z"})
    assert (4 + 2, 0) == (meter.write_units, meter.reads)


def test_a_scheduled_job_costs_its_rows_in_two_indexes(meter: Meter, metered: Clients, api: Api):
    """In `wake` and `attention`: put, and deleted when it starts or is woken."""
    jobs = JobStore(metered.make("dynamodb"), DESCRIPTOR.jobs_table)
    at_ms = int((time.time() + 60) * 1000)
    for woken, units in [(False, 4 + 5), (True, 4 + 8)]:
        meter.reset()
        body = {"command": ["true"], "run_at": rfc3339(at_ms)}
        _, job = api("POST", "/v1/jobs", body)
        assert ("scheduled", 2 + 2) == (job["state"], meter.write_units)
        if woken:  # by the requeue function; the others have a message that is delayed
            head = jobs.get(job["id"])
            assert head is not None
            step = plan(head, Event.WAKE, at_ms + 1, "its run_at has come")
            jobs.rearm(jobs.move(head, Event.WAKE, step), at_ms + 2)
        head = jobs.claim(named(job["id"]), "i-0123456789abcdef0", at_ms + 3)
        step = Step(State.COMPLETED, head.timeline[-1].at_ms, 1, "exit code 0")
        jobs.settle(head, step, AttemptFacts(Outcome.SUCCEEDED, exit_code=0))
        assert units == meter.write_units


def test_the_longest_submission_that_stays_in_the_head_costs_no_more(
    aws: Cloud, meter: Meter, run_one: RunOne
):
    empty = len('{"command":["true",""]}' + "lanedefault/default")
    job_id = run_one({"command": ["true", "x" * (INLINE_SPEC_BYTES - empty - REQUEST_BYTES)]})
    assert 4 == meter.write_units
    room = 1024 - head_size(aws, job_id)
    # cgroup accounting, which this isolation lacks, adds four figures to the usage
    assert 130 < room < 300


def test_a_trace_context_costs_nothing_and_counts_as_part_of_the_submission(
    aws: Cloud, meter: Meter, run_one: RunOne
):
    context = {
        "traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
        "tracestate": "rojo=00f067aa0ba902b7,congo=t61rcWkgMzE",
    }
    empty = len('{"command":["true",""]}' + "lanedefault/default")
    stored = sum(len(name) + len(text) for name, text in context.items())
    longest = INLINE_SPEC_BYTES - empty - stored - REQUEST_BYTES
    job_id = run_one({"command": ["true", "x" * longest], **context})
    assert (4, 0, 3) == (meter.write_units, meter.reads, sqs_requests(meter))
    assert 130 < 1024 - head_size(aws, job_id) < 300
    meter.reset()
    run_one({"command": ["true", "x" * (longest + 1)], **context})
    assert (5, 1) == (meter.write_units, meter.reads)


def test_an_action_on_a_job_reads_it_once(meter: Meter, api: Api):
    """For its record in the audit trail, which names the trace, and for the action itself."""
    _, job = api("POST", "/v1/jobs", {"command": ["true"]})
    meter.reset()
    assert 202 == api("POST", f"/v1/jobs/{job['id']}/cancel")[0]
    assert 1 == meter.calls["dynamodb.GetItem"]


def test_a_longer_one_goes_aside_for_its_own_size(meter: Meter, run_one: RunOne):
    run_one({"command": ["true", "x" * INLINE_SPEC_BYTES]})
    assert 5 == meter.write_units
    assert 1 == meter.reads  # the agent fetches it once, with the claim


def test_one_that_lies_in_s3_costs_two_requests_there_and_as_little_here(
    meter: Meter, run_one: RunOne
):
    run_one({"command": ["true", *["x" * 100_000] * 10]})
    assert (5, 1, 3) == (meter.write_units, meter.reads, sqs_requests(meter))
    s3 = {call: n for call, n in meter.calls.items() if call.startswith("s3.")}
    assert {"s3.PutObject": 1, "s3.GetObject": 1} == s3
    price = dollars_per_million(
        write_units=5, read_units=1, sqs_requests=3, s3_puts=1, s3_gets=1, s3_gb_months=1 / 1024
    )
    print(f"a million jobs of 1 MB each, their objects kept for a month: ${price:.2f}")


def test_a_job_with_a_line_of_output_costs_one_write_unit_more(meter: Meter, run_one: RunOne):
    """It was a stream and a write to CloudWatch Logs, which are rationed for an account."""
    run_one({"command": ["echo", "hello"]})
    assert (4 + 1, 0, 3) == (meter.write_units, meter.reads, sqs_requests(meter))
    assert 1 == output(len("hello\n"), 0, 90).write_units
    assert {"dynamodb", "sqs"} == {call.partition(".")[0] for call in meter.calls}


def test_a_large_chunk_of_output_costs_a_put_and_one_write_unit(meter: Meter, run_one: RunOne):
    run_one({"command": ["head", "-c", "200000", "/dev/urandom"]})
    chunks = meter.calls["s3.PutObject"]
    assert 1 <= chunks <= 2  # a first one after 20 ms, and the rest at the end
    assert (4 + chunks, 0, 3) == (meter.write_units, meter.reads, sqs_requests(meter))


def test_a_reader_polls_by_two_reads_and_gets_an_object_once(
    meter: Meter, api: Api, run_one: RunOne
):
    job_id = run_one({"command": ["head", "-c", "200000", "/dev/urandom"]})
    chunks = meter.calls["s3.PutObject"]
    meter.reset()
    status, page = api("GET", f"/v1/jobs/{job_id}/logs", query={"limit": "1000"})
    assert (200, True) == (status, page["complete"])
    assert {"dynamodb.GetItem": 1, "dynamodb.Query": 1, "s3.GetObject": chunks} == meter.calls
    meter.reset()
    _, poll = api("GET", f"/v1/jobs/{job_id}/logs", query={"next": page["next"]})
    assert ([], True) == (poll["entries"], poll["complete"])
    assert {"dynamodb.GetItem": 1, "dynamodb.Query": 1} == meter.calls


def test_a_batch_asks_for_no_more_than_its_messages_and_its_puts(meter: Meter, api: Api):
    status, _ = api("POST", "/v1/jobs/batch", {"jobs": [{"command": ["true"]}] * 100})
    assert 200 == status
    assert {"sqs.SendMessageBatch": 10, "dynamodb.PutItem": 100} == meter.calls
    assert 200 == meter.write_units


def test_a_warm_function_reads_the_figures_of_limits_once_in_ten_seconds(
    meter: Meter, metered: Clients
):
    now = [time.time()]
    api = Api(build(configure(Settings), metered, lambda: now[0]))
    for reads in (1, 1, 2, 2):
        for _ in range(5):
            assert 202 == api("POST", "/v1/jobs", {"command": ["true"]})[0]
        assert reads == meter.calls["dynamodb.GetItem"]
        assert reads == meter.calls["dynamodb.BatchGetItem"]  # what agents can give: not there yet
        now[0] += 5
