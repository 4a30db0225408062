"""A job whose item cannot grow is run to its end, and its outcome is the true one."""

from dataclasses import replace

import pytest
from ulid import ULID

from joblane.aws.clients import Clients
from joblane.aws.job_items import to_row
from joblane.aws.table import encoded
from joblane.deployment.names import table_name
from joblane.job.head import submitted
from joblane.job.lifecycle import State
from joblane.job.timeline import TIMELINE_LINES, Step
from scripts.local.cloud import DEPLOYMENT, TENANT
from tests.e2e.conftest import Http
from tests.support.deployed import send_again, wait_for
from tests.support.jobs import submission
from tests.support.meter import item_size

ITEM_BYTES = 400 << 10
"""DynamoDB's limit, which the local AWS has too."""

CYCLE = (
    Step(State.ACTIVE, 1, 1, "claimed", "i-0123456789abcdef0"),
    Step(State.PENDING, 2, 0, "interrupted: its agent is draining; waits for another agent"),
)


def put_interrupted(clients: Clients, room: int) -> tuple[str, int]:
    """Write a job that was interrupted until its item had `room` bytes left.

    Returns its id, and how often it was claimed. So heads looked before timelines were folded.
    """
    head = submitted(str(ULID()), TENANT, submission(command=["sh", "-c", "exit 65"]), 0)
    cycles = (ITEM_BYTES - 1000) // sum(len(step.encode()) + 1 for step in CYCLE)
    head = replace(head, epoch=cycles, timeline=(*head.timeline, *(CYCLE * cycles)))
    row = to_row(head, head.spec.model_dump_json(exclude_defaults=True))
    row["filler"] = "x" * (ITEM_BYTES - room - item_size(encoded({**row, "filler": ""})))
    clients.make("dynamodb").put_item(TableName=table_name(DEPLOYMENT, "jobs"), Item=encoded(row))
    return head.job_id, cycles


@pytest.mark.usefixtures("agent")
@pytest.mark.parametrize("room", [10, 200], ids=["claim", "end"])
def test_an_item_without_room_for_a_claim_or_an_end_holds_up_nothing(
    clients: Clients, http: Http, room: int
):
    job_id, cycles = put_interrupted(clients, room)
    send_again(clients, [job_id])
    job = wait_for(http, job_id, "failed")
    assert (cycles + 1, 65, "permanent") == (job["epoch"], job["exit_code"], job["outcome"])
    assert len(job["timeline"]) <= TIMELINE_LINES
    claims = [step for step in job["timeline"] if step["state"] == "active"]
    left_out = f"(the last of {cycles + 2 - len(claims)} times since 1970"
    assert [left_out in step["reason"] for step in job["timeline"]].count(True) == 1
