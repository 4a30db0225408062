"""Two engines, and our code, agree on which events each filter and event pattern lets pass.

The engines are that of the local AWS and LocalStack's. The records are what our code writes into
the jobs table (records.py); what AWS sends has the values that botocore knows.
"""

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import botocore.session
import pytest

from joblane.aws.job.ends import read_end, read_left
from joblane.aws.job.items import HEAD, TELLS
from joblane.aws.job.stream import read_record
from joblane.aws.notify.stream import read_changes
from joblane.aws.table import decode
from joblane.contract.job_events import DETAIL_TYPE, SOURCE, job_event
from joblane.group.record import MemberOf
from joblane.job.head import make_head
from joblane.state.lifecycle import ENDED, State
from joblane.testing.memory.stream import Record
from tests.infra.synthesis import ROOT, Deployment
from tests.infra.templates import resolve
from tests.second_opinion.engines import Engine
from tests.second_opinion.records import NOW_MS, records
from tests.support.jobs import JOB, submission

if TYPE_CHECKING:
    from joblane.notify.event_names import EventName

Event = dict[str, Any]


def filters(deployment: Deployment) -> dict[str, list[str]]:
    """The filters of each function that has any."""
    return {
        mapping["FunctionName"]["Ref"].partition("Function")[0]: [
            each["Pattern"] for each in mapping["FilterCriteria"]["Filters"]
        ]
        for mapping in deployment.properties("AWS::Lambda::EventSourceMapping")
        if "FilterCriteria" in mapping
    }


def rules(deployment: Deployment) -> dict[str, str]:
    """The event pattern of each rule that has one, by the description of the rule."""

    def filled(value: Any) -> Any:
        if isinstance(value, list):
            return [filled(each) for each in value]
        if isinstance(value, dict):
            is_text = value.keys() & {"Fn::Join", "Fn::Sub", "Ref"}
            return resolve(value) if is_text else {k: filled(v) for k, v in value.items()}
        return value

    return {
        rule["Description"]: json.dumps(filled(rule["EventPattern"]))
        for rule in deployment.properties("AWS::Events::Rule")
        if "EventPattern" in rule
    }


def compare_engines(
    what: str, texts: Sequence[str], events: Sequence[Event], *engines: Engine
) -> list[list[bool]]:
    """What the engines say alike; the first engine knows rules and filters as different things."""
    first, second = engines
    ours, theirs = first.judge(what, texts, events), second.judge("patterns", texts, events)
    differ = [
        (text, event)
        for text, mine, other in zip(texts, ours, theirs, strict=True)
        for event, one, two in zip(events, mine, other, strict=True)
        if one != two
    ]
    assert not differ, f"{len(differ)} differ, the first: {differ[0]}"
    for text, passes in zip(texts, theirs, strict=True):
        assert {True, False} == set(passes), f"lets all or nothing pass: {text}"
    return theirs


def is_counted(record: Record) -> bool:
    """Whether the projector is called: for every change of a job."""
    is_head: bool = record["dynamodb"]["Keys"]["sk"]["S"] == HEAD
    assert is_head or read_record(record) is None
    return is_head


def has_sequel(record: Record) -> bool:
    """Whether `sequel` is called: an end, a change of a job that tells something, a group to go on.

    A filter compares no two images, so changes that are no transitions pass as well, and jobs with
    a key that are skipped before their start; and any job that is deleted before its end.
    """
    new, old = (decode(record["dynamodb"].get(name, {})) for name in ("NewImage", "OldImage"))
    tells = new.get("sk") == HEAD and TELLS in new
    assert tells or not read_changes(record)
    deleted = not new and old.get("sk") == HEAD and old["state"] not in ENDED
    left = record["eventName"] == "MODIFY" and read_left(record) is not None
    of_key = "k" in old.get("follows", {}) and old["state"] not in ENDED
    skipped = of_key and new.get("state") == State.SKIPPED
    return tells or deleted or left or skipped or read_end(record) is not None


@pytest.mark.parametrize(
    ("function", "expected"), [("Projector", is_counted), ("Sequel", has_sequel)]
)
def test_filters_of_the_stream(
    varied: Deployment,
    localstack: Engine,
    ministack: Engine,
    function: str,
    expected: Callable[[Record], bool],
) -> None:
    written = records()
    texts = filters(varied)[function]
    passes = compare_engines("patterns", texts, written, ministack, localstack)
    for record, answers in zip(written, zip(*passes, strict=True), strict=True):
        assert expected(record) == any(answers), record
    print(f"{function}: {len(written)} records, {sum(map(any, zip(*passes, strict=True)))} pass")


def test_every_filter_is_judged(varied: Deployment) -> None:
    """No queue's mapping has a filter."""
    assert {"Projector": 1, "Sequel": 5} == {
        name: len(texts) for name, texts in filters(varied).items()
    }
    assert {RECOVERY, INSTANCES} == rules(varied).keys()


RECOVERY = "An execution of the recovery state machine failed or was stopped"
INSTANCES = "Joblane: free the jobs of an instance that has ended"


def values(service: str, shape: str) -> list[str]:
    """What botocore knows of an enumeration of AWS's."""
    model = botocore.session.get_session().get_service_model(service)
    found: list[str] = model.shape_for(shape).metadata["enum"]
    return found


def event(source: str, kind: str, **detail: object) -> Event:
    """An event as AWS's services send it."""
    return {
        "version": "0",
        "id": "315c1398-40ff-a850-213b-158f73e60175",
        "detail-type": kind,
        "source": source,
        "account": "111122223333",
        "time": "2026-01-01T00:00:00Z",
        "region": "eu-west-1",
        "resources": [],
        "detail": detail,
    }


def of_executions(machine: str) -> list[Event]:
    """Events of an execution of a state machine, one for each status."""
    arn = f"arn:aws:states:eu-west-1:111122223333:stateMachine:{machine}"
    return [
        event(
            "aws.states",
            "Step Functions Execution Status Change",
            executionArn=f"{arn.replace('stateMachine', 'execution')}:1",
            stateMachineArn=arn,
            name="1",
            status=status,
            input=json.dumps({"condition": "app:ledger", "generation": 1}),
            output=None,
        )
        for status in values("stepfunctions", "ExecutionStatus")
    ]


def of_instances() -> list[Event]:
    """Events of an instance, one for each state."""
    return [
        event(
            "aws.ec2",
            "EC2 Instance State-change Notification",
            **{"instance-id": "i-0123456789abcdef0", "state": state},
        )
        for state in values("ec2", "InstanceStateName")
    ]


def test_rules(varied: Deployment, localstack: Engine, ministack: Engine) -> None:
    sent = [
        *of_executions("joblane-recovery"),
        *of_executions("other-recovery"),
        *of_instances(),
        event("aws.autoscaling", "EC2 Instance Terminate Successful", state="terminated"),
    ]
    found = rules(varied)
    passes = compare_engines("rules", list(found.values()), sent, ministack, localstack)
    called = {
        name: [each["detail"] for each, passed in zip(sent, answers, strict=True) if passed]
        for name, answers in zip(found, passes, strict=True)
    }
    assert {("joblane-recovery", status) for status in ("FAILED", "TIMED_OUT", "ABORTED")} == {
        (each["stateMachineArn"].rpartition(":")[2], each["status"]) for each in called[RECOVERY]
    }
    assert {"terminated", "stopped"} == {each["state"] for each in called[INSTANCES]}
    assert all("instance-id" in each for each in called[INSTANCES])


def of_a_life(tenant: str, group: str | None, team: str) -> list[Event]:
    """Events of a job, as the bus has them: it is tried, given back, and dead in the end."""
    moves: list[tuple[State | None, EventName, State]] = [
        (None, "submitted", State.PENDING),
        (State.PENDING, "started", State.ACTIVE),
        (State.ACTIVE, "released", State.PENDING),
        (State.PENDING, "started", State.ACTIVE),
        (State.ACTIVE, "retry", State.RETRY),
        (State.RETRY, "started", State.ACTIVE),
        (State.ACTIVE, "dead", State.DEAD),
    ]
    member = None if group is None else MemberOf(group, 1)
    head = make_head(JOB, tenant, submission(labels={"team": team}), NOW_MS)
    found = []
    for number, (before, name, after) in enumerate(moves):
        now = replace(head, state=after, member_of=member)
        made = job_event(now, name, before, number, "joblane", None)
        found.append(event(SOURCE, DETAIL_TYPE, **made.model_dump(mode="json")))
    return found


def test_the_patterns_of_the_pages(localstack: Engine, ministack: Engine) -> None:
    """Each lets pass what the page says."""
    page, how = (
        (ROOT / "docs" / name).read_text("utf-8")
        for name in ("reference/events.md", "how-to/be-told-when-a-job-ends.md")
    )
    blocks = re.findall(r"```json\n(\{\n  \"[sd].*?)```", page, re.DOTALL)
    patterns = [block for block in blocks if '"detail"' in block and '"properties"' not in block]
    patterns += re.findall(r"--event-pattern '(.*?)'", how, re.DOTALL)
    jobs = (("main", None, "web"), ("main", "01J", "web"), ("other", None, "db"))
    sent = [each for job in jobs for each in of_a_life(*job)]
    passes = compare_engines("rules", patterns, sent, ministack, localstack)
    named = [
        [each["detail"]["event"] for each, passed in zip(sent, answers, strict=True) if passed]
        for answers in passes
    ]
    life = [each["detail"]["event"] for each in sent[:7]]
    assert named == [
        ["job.dead"] * 2,  # of both jobs of the tenant
        life,  # without the member
        ["job.released", "job.retry"] * 3,
        [name for name in life if name in {"job.started", "job.dead"}] * 2,
    ]
