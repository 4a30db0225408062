"""What a restart costs, and what a typed job pays for knowing which fields were given."""

import time
from typing import Any

import pytest

from functions.submission.handler import Settings, build
from joblane.aws.clients import Clients
from joblane.job.head import INLINE_SPEC_BYTES
from joblane.state.lifecycle import State
from tests.support.aws import DESCRIPTOR, Cloud, configure
from tests.support.dying import end
from tests.support.meter import Meter, item_size
from tests.support.requests import Api
from tests.support.types import store_type

LOOSE: dict[str, Any] = {"params_schema": {"type": "object"}, "items": None}


@pytest.fixture(name="api")
def _api(metered: Clients) -> Api:
    return Api(build(configure(Settings), metered, time.time))


def submit(api: Api, **fields: Any) -> str:
    status, job = api("POST", "/v1/jobs", {"type": "sync-tickets", "params": {}, **fields})
    assert 202 == status, job
    return str(job["id"])


def restart(aws: Cloud, meter: Meter, api: Api, job_id: str) -> tuple[int, int, int]:
    """Let a dead job be retried. Returns write units, items read, requests to SQS."""
    end(aws, job_id)
    api("GET", f"/v1/jobs/{job_id}")
    meter.reset()
    status, answer = api("POST", f"/v1/jobs/{job_id}/retry")
    assert 202 == status, answer
    sent = sum(n for call, n in meter.calls.items() if call.startswith("sqs."))
    return meter.write_units, meter.reads, sent


def test_a_restart_of_a_command_costs_seven_write_units(aws: Cloud, meter: Meter, api: Api):
    """Its row, the entry in `attention` that it leaves, and the audit trail with its index.

    And that in `wake`, which it has until its message is sent: put, and taken away with the row.
    """
    job_id = api("POST", "/v1/jobs", {"command": ["true"]})[1]["id"]
    assert (7, 1, 1) == restart(aws, meter, api, job_id)


def test_the_present_version_costs_a_read_and_no_write_unless_the_submission_changes(
    aws: Cloud, meter: Meter, api: Api
):
    store_type(aws, **LOOSE)
    job_id = submit(api)
    store_type(aws, **LOOSE, description="fixed")
    first = restart(aws, meter, api, job_id)
    assert (7, 3, 1) == first  # the job, the number of the version, and once its definition
    assert (7, 2, 1) == restart(aws, meter, api, job_id)
    job_id = submit(api)
    store_type(aws, **LOOSE, defaults={"timeout_s": 60})
    assert (7, 3, 1) == restart(aws, meter, api, job_id)
    assert (3, 1) == (aws.job(job_id).type_version, aws.job(job_id).edit)


def test_a_changed_submission_beside_the_row_costs_four_units_for_each_kilobyte(
    aws: Cloud, meter: Meter, api: Api
):
    store_type(aws, **LOOSE)
    job_id = submit(api, params={"a": "x" * 1_500})
    store_type(aws, **LOOSE, defaults={"timeout_s": 60})
    units, reads, sent = restart(aws, meter, api, job_id)
    print(units, reads, sent)
    assert (7 + 1 + 4 * 2, 4, 1) == (units, reads, sent)


def test_another_key_is_two_keys_in_one_transaction(aws: Cloud, meter: Meter, api: Api):
    store_type(aws, **LOOSE, key={"segments": ["old"]})
    job_id = submit(api)
    store_type(aws, **LOOSE, key={"segments": ["new"]})
    units, reads, sent = restart(aws, meter, api, job_id)
    print(units, reads, sent)
    assert (7 + 6, 5, 1) == (units, reads, sent)


def test_a_typed_job_that_gives_fields_stays_in_its_row(aws: Cloud, meter: Meter, api: Api):
    """Their names count as a part of the submission."""
    store_type(aws, **LOOSE)
    fields = {"timeout_s": 90, "retry": {"max_attempts": 2}, "env": {"MODE": "full"}}
    given = "env.MODE retry.max_attempts timeout_s"
    meter.reset()
    job_id = submit(api, **fields)
    assert 2 == meter.write_units
    head = aws.job(job_id)
    assert given == " ".join(head.given)
    longest = INLINE_SPEC_BYTES
    for more, units in ((0, 2), (1, 3)):
        meter.reset()
        size = _room(aws, job_id, longest) + more
        submit(api, **fields, params={"a": "x" * size})
        assert units == meter.write_units


def _room(aws: Cloud, job_id: str, longest: int) -> int:
    """How long a text in the params may be so that all of it is in the row."""
    key = {"job_id": {"S": job_id}, "sk": {"S": "JOB"}}
    dynamodb = aws.clients.make("dynamodb")
    item = dynamodb.get_item(TableName=DESCRIPTOR.jobs_table, Key=key)["Item"]
    beside = [name for name in ("lane", "given", "request", "tells") if name in item]
    stands = len(item["spec"]["S"]) + sum(len(name) + len(item[name]["S"]) for name in beside)
    assert item_size(item) < 1024
    return longest - stands - len('"a":""')


def test_a_job_that_was_restarted_by_another_version_stays_below_a_kilobyte(aws: Cloud, api: Api):
    store_type(aws, **LOOSE)
    job_id = submit(api, timeout_s=90)
    store_type(aws, **LOOSE, defaults={"env": {"MODE": "b"}})
    end(aws, job_id)
    api("POST", f"/v1/jobs/{job_id}/retry")
    end(aws, job_id, State.COMPLETED)
    key = {"job_id": {"S": job_id}, "sk": {"S": "JOB"}}
    dynamodb = aws.clients.make("dynamodb")
    size = item_size(dynamodb.get_item(TableName=DESCRIPTOR.jobs_table, Key=key)["Item"])
    print(size)
    assert size < 1024
