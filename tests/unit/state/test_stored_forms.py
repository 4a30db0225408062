"""Readers of stored and sent forms ignore fields that they do not know (decision 2131)."""

import json
import random
import zlib
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
from pydantic import ValidationError

from ec2_agent.messages.delivery import Delivery
from ec2_agent.outcomes.record import OutcomeRecord, decide
from ec2_agent.sandbox.model import Ending, Usage
from joblane.aws.condition.items import state_values, to_state, to_waiting, waiting_row
from joblane.aws.fleet.agents import SHARDS, AgentStore
from joblane.aws.job.items import encode_spec, from_row, read_spec, to_data, to_row
from joblane.aws.queue.lanes import Received
from joblane.condition.blocking import Blocking
from joblane.condition.blocking import decode as decode_blocking
from joblane.condition.blocking import encode as encode_blocking
from joblane.condition.state import ConditionState, Phase
from joblane.contract.job_events import Delivery as Notice
from joblane.contract.job_events import job_event
from joblane.deployment.descriptor import Descriptor
from joblane.deployment.limits import LimitOverrides, Limits
from joblane.files.models import OutputFile, OutputSummary
from joblane.job.blocked import waiting_job
from joblane.job.head import Head, PayloadObject, make_head
from joblane.job.judge import AttemptResult
from joblane.job.message import Command, Message
from joblane.job.spec import Submission
from joblane.state.lease import Heartbeat, HostDisk, HostLoad, StatePool
from joblane.state.lifecycle import Outcome, State
from joblane.state.result import ResultObject
from joblane.state.retention import Retention
from joblane.state.trace import TraceContext
from tests.support.aws import DESCRIPTOR, Cloud
from tests.support.jobs import JOB, submission

NOW_MS = 1_795_000_000_000
TRACE = TraceContext("4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7", 1, "a=1")
URL = "http:https://x.example/"

BY_NAME = {"env", "labels", "taken", "queues", "tenants", "secret_env", "params"}
"""Objects whose members are not fields: a further one would mean something."""

SPEC = submission(
    env={"A": "b"},
    retry={"max_attempts": 2},
    resources={"cpus": 1, "memory_mb": 64},
    concurrency={"key": ["customer", 7], "max_queued": 3},
    notify={"eventbridge": True, "on": ["dead"]},
    inputs=[{"path": "a", "sha256": "a" * 64}],
    requires=[URL],
)
BROADCAST = submission(target="_all", reply_timeout_s=7, max_concurrency=2, max_failures=1)
ENDING = Ending(
    0, None, False, False, False, None, Usage(cpu_s=0.1, wall_s=0.25), records=3, failure="no"
)


def more(value: Any, name: str = "") -> Any:
    """The same JSON with a further field in each of its objects."""
    if isinstance(value, list):
        return [more(each) for each in value]
    if not isinstance(value, dict):
        return value
    found = {key: more(each, key) for key, each in value.items()}
    return found if name in BY_NAME else {**found, "novelty": {"a": [1]}}


def later(text: str) -> str:
    """The JSON as a later version might write it."""
    return json.dumps(more(json.loads(text)))


def head(spec: Submission = SPEC, **fields: Any) -> Head:
    """A job that is completed, with a result and files in S3."""
    new = make_head(JOB, "acme", spec, NOW_MS, caller_trace=TRACE)
    known = {name: getattr(new, name) for name in new.__dataclass_fields__}
    return Head(
        **{
            **known,
            "state": State.COMPLETED,
            "epoch": 1,
            "attempt": 1,
            "outcome": Outcome.SUCCEEDED,
            "result_object": ResultObject(5000, "b" * 64),
            "output_files": OutputSummary.of(1, [OutputFile(path="o", size=1, sha256="c" * 64)]),
            **fields,
        }
    )


def outcome() -> OutcomeRecord:
    delivery = Delivery("default", "lane", "dead", Received("{}", "r-1", 1, 5), 6.5)
    result = AttemptResult(
        Outcome.SUCCEEDED,
        "exit code 0",
        NOW_MS,
        ending=ENDING,
        records=3,
        result_object=ResultObject(5000, "b" * 64),
        output_files=OutputSummary.of(1, [OutputFile(path="o", size=1, sha256="c" * 64)]),
    )
    return decide(head(state=State.ACTIVE), delivery, result, Retention(), random.Random(1))


def row_again(head: Head) -> Head:
    """The head of a row to which a later version has added attributes, also to the submission."""
    row = to_row(head, encode_spec(head.spec))
    row = {**more(row), "spec": later(row["spec"])}
    return from_row(row, row)


def data_again(head: Head) -> Head:
    """As `row_again`, with the submission in S3."""
    data = to_data(head, encode_spec(head.spec), 99)
    return from_row(more(to_row(head)), {**more(data), "spec": later(data["spec"])})


def journal_again(record: OutcomeRecord) -> OutcomeRecord:
    """The record as a later version might have written it; its head is an item of DynamoDB."""
    value = json.loads(record.encode())
    item = {**value.pop("head"), "novelty": {"S": "?"}}
    item["spec"]["S"] = later(item["spec"]["S"])
    return OutcomeRecord.decode(json.dumps({**more(value), "head": item}))


class Form(NamedTuple):
    """A stored or sent form: what is written, and what a reader makes of a later version's."""

    name: str
    written: Any
    read: Callable[[Any], Any]


ENTRY = waiting_job(head())
STATE = ConditionState(URL, NOW_MS, Phase.RUNNING, NOW_MS, 2, 0, "503", NOW_MS + 1)
NOTICE = Notice(
    notify=SPEC.notify,
    events=(job_event(head(), "completed", State.ACTIVE, 7, "joblane", None),),
)
LIMITED = DESCRIPTOR.model_copy(
    update={"limits": Limits(tenants={"acme": LimitOverrides(jobs_running=3)})}
)

FORMS = [
    Form("submission", SPEC, lambda it: read_spec(later(encode_spec(it)), "default/default")),
    Form(
        "submission of a group",
        BROADCAST,
        lambda it: read_spec(later(encode_spec(it)), "default/default"),
    ),
    Form("row of a job", head(), row_again),
    Form(
        "row of a job in S3",
        head(payload=PayloadObject("payloads/acme/x", 9, "d" * 64)),
        data_again,
    ),
    Form(
        "message",
        Message(
            job_id=JOB, tenant="acme", memory_mb=64, caller_trace=TRACE, lane="default/default"
        ),
        lambda it: Message.decode(later(it.encode())),
    ),
    Form(
        "command",
        Command(command="cancel", job_id=JOB, caller_trace=TRACE),
        lambda it: Command.decode(later(it.encode())),
    ),
    Form("descriptor", LIMITED, lambda it: Descriptor.decode(later(it.model_dump_json()))),
    Form("outcome in the journal", outcome(), journal_again),
    Form("exit record", ENDING, lambda it: Ending.decode(more(it.encode()))),
    Form("entry of a condition", ENTRY, lambda it: to_waiting(more(waiting_row(URL, it)))),
    Form(
        "condition",
        STATE,
        lambda it: to_state(more({"condition": it.condition, **state_values(it)})),
    ),
    Form(
        "answer of a test",
        Blocking(URL, "503", untestable=False),
        lambda it: decode_blocking(more(encode_blocking(it))),
    ),
    Form(
        "notification",
        NOTICE,
        lambda it: Notice.decode(later(it.model_dump_json())),
    ),
]


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.name)
def test_a_form_of_a_later_version_is_read(form: Form):
    assert form.written == form.read(form.written)


def test_a_heartbeat_of_a_later_version_is_read(aws: Cloud):
    row = Heartbeat(
        "web-1",
        NOW_MS,
        NOW_MS,
        4,
        1,
        ("default",),
        "full",
        "2",
        (JOB,),
        tenants=("acme",),
        labels={"group": "web"},
        left=3,
        taken={"default": 1},
        lacks=("egress",),
        memory_mb=3000,
        cores=4,
        disk=HostDisk(-50, 1000),
        work_disk=HostDisk(200, 9000),
        host=HostLoad(1.25, 2210),
        state_pool=StatePool(20, 1, 2, 3000, 4, 5, 6, 7),
    )
    aws.agents.beat(row)
    dynamodb = aws.clients.make("dynamodb")
    dynamodb.update_item(
        TableName=DESCRIPTOR.agents_table,
        Key={"shard": {"S": f"{zlib.crc32(b'web-1') % SHARDS:02d}"}, "agent": {"S": "web-1"}},
        UpdateExpression="SET novelty = :novelty",
        ExpressionAttributeValues={":novelty": {"S": "?"}},
    )
    assert row == AgentStore(dynamodb, DESCRIPTOR.agents_table).get("web-1")


def test_what_is_asked_for_is_still_checked_strictly():
    with pytest.raises(ValidationError, match="Extra inputs are not permitted"):
        Submission.model_validate_json(later(SPEC.model_dump_json(exclude_defaults=True)))
