"""What the API shows as the oldest waiting job, and what it reads for it."""

from typing import Any

import pytest

from functions.admin.handler import Settings, build
from joblane.deployment.names import table_name
from joblane.service.queue.count import Counting
from joblane.state.lifecycle import State
from tests.support.aws import NAME, Cloud, configure
from tests.support.job_stream import NOON, Stream, id_of_job
from tests.support.meter import Meter
from tests.support.requests import Api

HOUR = 3600
SYNC: dict[str, Any] = {"command": (), "type": "sleep", "params": {"ms": 1}}


class Deployment:
    """The tables with the jobs that a test writes, counted by the projector."""

    def __init__(self, aws: Cloud, projector: Counting) -> None:
        self._aws, self._projector = aws, projector
        self._stream = Stream()

    def write(self, job: str, state: State | None, tenant: str = "acme", **fields: Any) -> str:
        """Write a job that was submitted at noon, and count it; returns its id."""
        record = self._stream.write(job, state, tenant=tenant, **fields)
        dynamodb, table = self._aws.clients.make("dynamodb"), table_name(NAME, "jobs")
        key = record["dynamodb"]["Keys"]
        if state is None:
            dynamodb.delete_item(TableName=table, Key=key)
        else:
            dynamodb.put_item(TableName=table, Item=record["dynamodb"]["NewImage"])
        self._projector.handle([record])
        found: str = key["job_id"]["S"]
        return found


@pytest.fixture(name="there")
def _there(aws: Cloud, projector: Counting) -> Deployment:
    return Deployment(aws, projector)


def api(aws: Cloud, client: str = "client-acme", **claims: str) -> Api:
    return Api(build(configure(Settings), aws.clients, lambda: NOON + HOUR), client, claims)


def of_queue(ask: Api, queue: str) -> Any:
    status, view = ask("GET", f"/v1/queues/{queue}")
    assert 200 == status, view
    return view["jobs"] and view["jobs"]["oldest"]


def test_a_queue_and_a_type_show_their_oldest_job_until_it_starts(aws: Cloud, there: Deployment):
    ask = api(aws)
    assert of_queue(ask, "default") is None
    first = there.write("a", State.RETRY, submitted=NOON - 1800)
    typed = there.write("b", State.PENDING, **SYNC)
    there.write("c", State.SCHEDULED, submitted=NOON - 9000)
    oldest = of_queue(ask, "default")
    assert {
        "job_id": first,
        "submitted_at": "2027-01-15T11:30:00.000Z",
        "age_s": 5400,
        "within_s": 0,
    } == oldest
    _, page = ask("GET", "/v1/types", query={"counts": "true"})
    (sleep,) = (entry for entry in page["entries"] if entry["type"] == "sleep")
    assert (first, typed) == (
        page["commands"]["oldest"]["job_id"],
        sleep["jobs"]["oldest"]["job_id"],
    )
    there.write("a", State.ACTIVE, submitted=NOON - 1800)
    assert typed == of_queue(ask, "default")["job_id"]
    there.write("b", State.PENDING, queue="bulk", **SYNC)
    assert (None, typed) == (of_queue(ask, "default"), of_queue(ask, "bulk")["job_id"])
    there.write("b", None)
    assert of_queue(ask, "bulk") is None


def test_a_tenant_sees_its_own_job_and_the_role_platform_an_age(aws: Cloud, there: Deployment):
    others = there.write("a", State.PENDING, tenant="other", submitted=NOON - HOUR)
    mine = there.write("b", State.PENDING)
    assert mine == of_queue(api(aws), "default")["job_id"]
    assert others == of_queue(api(aws, "client-other"), "default")["job_id"]
    oldest = of_queue(api(aws, "client-platform"), "default")
    assert oldest["job_id"] is None
    assert oldest["age_s"] < 2 * HOUR <= oldest["age_s"] + oldest["within_s"] + 1


def test_a_search_is_a_query_and_a_batch_where_the_oldest_is_among_few(
    aws: Cloud, there: Deployment, meter: Meter
):
    for n in range(60):
        there.write(f"j{n}", State.COMPLETED if n % 2 else State.PENDING, submitted=NOON - n * 60)
    built = build(configure(Settings), meter.clients_of(aws), lambda: NOON + HOUR)
    meter.reset()
    oldest = of_queue(Api(built), "default")
    assert id_of_job("j58", NOON - 58 * 60) == oldest["job_id"]
    # Beside the settings and the activity of the queue.
    assert (2, 2) == (meter.calls["dynamodb.BatchGetItem"], meter.calls["dynamodb.Query"])
    assert meter.rows_read < 40
