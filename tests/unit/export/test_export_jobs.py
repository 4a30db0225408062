"""Ended jobs of tenants that export them: from the stream through the queue to objects in S3."""

import gzip
import json
import random
import re
import sqlite3
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from functions.exporter import handler as exporter_handler
from functions.projector import handler as projector_handler
from joblane.aws.errors import AwsRefused, AwsSilent
from joblane.aws.export.queue import MESSAGE_BYTES, ExportQueue
from joblane.aws.export.stream import Exported, read_exported
from joblane.contract.exported_job import ExportedJob, ExportedStep
from joblane.deployment.names import exports_dead_name, exports_name
from joblane.formats.ids import new_id
from joblane.group.array import InArray
from joblane.group.record import MemberOf
from joblane.job.head import make_head
from joblane.service.export.exporter import Exporter
from joblane.state.lifecycle import Event, Outcome, State
from scripts.costs.usage import EXPORTED_BYTES
from tests.support.aws import DESCRIPTOR, FUNCTION_ENVIRONMENT, NAME, PREFIX, objects
from tests.support.jobs import named, submission
from tests.support.keyed import NOW
from tests.support.keys import job
from tests.support.noted_log import NotedLog
from tests.support.span_scene import Scene

QUEUE, DEAD = (PREFIX + name(NAME) for name in (exports_name, exports_dead_name))
TTL = {"type": "Service", "principalId": "dynamodb.amazonaws.com"}
DAY = "tenant=acme/day=2027-01-15"


def project(scene: Scene, records: Sequence[Any] | None = None, **environment: str) -> None:
    """Deliver what the stream has, or these records, to the projector."""
    declared = {"JOBLANE_EXPORTING": '["acme"]', **environment}
    settings = projector_handler.Settings.model_validate({**FUNCTION_ENVIRONMENT, **declared})
    built = projector_handler.build(settings, scene.at.aws.clients, lambda: NOW)
    built.handle(scene.at.stream.take() if records is None else records)


def exporter(scene: Scene) -> Exporter:
    """The function, as it is deployed."""
    settings = exporter_handler.Settings.model_validate(FUNCTION_ENVIRONMENT)
    return exporter_handler.build(settings, scene.at.aws.clients)


def messages(scene: Scene) -> list[Any]:
    """The records of an SQS event with all messages of the queue."""
    bodies = scene.at.messages(QUEUE)
    return [
        {"messageId": f"m{number}", "body": json.dumps(body)} for number, body in enumerate(bodies)
    ]


def exported(scene: Scene) -> dict[str, list[Any]]:
    """The lines of each object."""
    s3, found = scene.at.aws.clients.make("s3"), {}
    for name in objects(scene.at.aws):
        if name.startswith("exports/"):
            body = s3.get_object(Bucket=DESCRIPTOR.bucket, Key=name)["Body"].read()
            text = gzip.decompress(body).decode()
            found[name] = [json.loads(line) for line in text.splitlines()]
    return found


def only_line(scene: Scene) -> Any:
    """The only line that was exported."""
    ((line,),) = exported(scene).values()
    return line


def run_job(state: State = State.COMPLETED, **fields: Any) -> Scene:
    """A job that has run."""
    scene = Scene(**fields)
    scene.put()
    scene.claim()
    outcome = Outcome.SUCCEEDED if state is State.COMPLETED else Outcome.FAILED
    scene.settle(state, outcome, exit_code=0 if state is State.COMPLETED else 3)
    return scene


def expire(scene: Scene) -> list[Any]:
    """The record of the row of the scene's job that DynamoDB deletes by its TTL."""
    scene.at.stream.take()
    scene.at.aws.jobs.delete(scene.head.job_id, None)
    return [{**record, "userIdentity": TTL} for record in scene.at.stream.take()]


def test_an_ended_job_is_a_line_of_an_object_of_its_tenant_and_day():
    scene = run_job(command=["render", "a b"], labels={"team": "films"})
    project(scene)
    assert [] == exporter(scene).handle(messages(scene))
    ((name, (line,)),) = exported(scene).items()
    assert name.startswith(f"exports/{DAY}/")
    assert name.endswith(".json.gz")
    assert {
        "version": 1,
        "record": "ended",
        "sequence": line["sequence"],
        "deployment": NAME,
        "tenant": "acme",
        "id": job("A"),
        "name": "nightly",
        "queue": "default",
        "priority": "default",
        "labels": {"team": "films"},
        "state": "completed",
        "reason": "it is succeeded",
        "outcome": "succeeded",
        "exit_code": 0,
        "attempt": 1,
        "epoch": 1,
        "agent": "agent-1",
    } == {
        k: v
        for k, v in line.items()
        if k
        not in {
            *("created_at", "started_at", "ended_at", "timeline", "submission", "trace_id"),
            *("abridged", "output_bytes", "output_file_bytes"),
        }
    }
    assert ["pending", "active", "completed"] == [step["state"] for step in line["timeline"]]
    assert {"command": ["render", "a b"], "labels": {"team": "films"}, "name": "nightly"} == {
        k: v for k, v in json.loads(line["submission"]).items() if k != "queue"
    }
    assert line["created_at"] < line["started_at"] < line["ended_at"]
    assert 40 == len(line["sequence"])


@pytest.mark.parametrize(("array", "index"), [(InArray(17, 3, has_value=False), 17), (None, 2)])
def test_a_member_has_its_group_and_its_index(array: InArray | None, index: int):
    scene = Scene()
    assigned = "agent-1" if array is None else None
    scene.head = replace(
        scene.head, member_of=MemberOf(job("G"), 2), in_array=array, assigned=assigned
    )
    scene.put()
    scene.claim()
    scene.settle(State.COMPLETED, Outcome.SUCCEEDED, exit_code=0)
    project(scene)
    exporter(scene).handle(messages(scene))
    line = only_line(scene)
    assert (job("G"), index) == (line["group"], line["index"])


def test_names_of_secrets_and_addresses_of_webhooks_are_left_out():
    scene = run_job(
        secret_env={"TOKEN": "secretsmanager:joblane/acme/token"},
        notify={"url": "https://hooks.example.com/T0/very-secret"},
    )
    project(scene)
    exporter(scene).handle(messages(scene))
    text = json.dumps(only_line(scene))
    assert "joblane/acme/token" not in text
    assert "very-secret" not in text


def test_a_long_submission_is_read_where_it_is():
    scene = run_job(command=["x" * 2000])
    project(scene)
    exporter(scene).handle(messages(scene))
    assert ["x" * 2000] == json.loads(only_line(scene)["submission"])["command"]


def test_a_job_whose_submission_was_deleted_is_exported_without_it():
    scene = run_job(command=["x" * 2000])
    project(scene)
    scene.at.aws.jobs.delete(job("A"), None)
    assert [] == exporter(scene).handle(messages(scene))
    line = only_line(scene)
    assert ("completed", None, None) == (
        line["state"],
        line.get("submission"),
        line.get("name"),
    )


def test_every_end_of_a_job_is_a_line():
    scene = run_job(State.FAILED)
    scene.move(Event.RETRY)
    scene.claim()
    scene.settle(State.COMPLETED, Outcome.SUCCEEDED, exit_code=0)
    project(scene)
    exporter(scene).handle(messages(scene))
    (lines,) = exported(scene).values()
    assert ["failed", "completed"] == [line["state"] for line in lines]
    assert lines[0]["ended_at"] < lines[1]["ended_at"]


def test_what_the_retention_deletes_is_exported_again_and_makes_good_a_lost_end():
    scene = run_job()
    project(scene, expire(scene))  # of its end the stream has nothing
    exporter(scene).handle(messages(scene))
    ((name, (line,)),) = exported(scene).items()
    assert name.startswith(f"exports/{DAY}/"), "the day of its end"
    assert ("expired", "completed") == (line["record"], line["state"])


def test_of_a_job_that_somebody_deletes_there_is_its_id_and_nothing_of_its_content():
    scene = run_job(command=["render", "private"])
    scene.at.stream.take()
    scene.at.aws.jobs.delete(job("A"), None)
    records = scene.at.stream.take()
    project(scene, records)
    sent = messages(scene)
    assert "private" not in json.dumps(sent)
    exporter(scene).handle(sent)
    line = only_line(scene)
    assert {
        "version": 1,
        "record": "deleted",
        "sequence": line["sequence"],
        "deployment": NAME,
        "tenant": "acme",
        "id": job("A"),
        "ended_at": line["ended_at"],
    } == line


def test_other_tenants_and_jobs_that_go_on_are_not_exported():
    scene = Scene()
    scene.put()
    scene.claim()
    scene.settle(State.RETRY, Outcome.FAILED, exit_code=3)
    project(scene)
    assert [] == messages(scene)
    scene = run_job()
    project(scene, JOBLANE_EXPORTING='["other"]')
    assert [] == messages(scene)


def test_a_batch_that_comes_again_and_a_message_too_write_the_same_object():
    scene = run_job()
    records = scene.at.stream.take()
    project(scene, records)
    first = messages(scene)
    project(scene, records)
    again = messages(scene)
    for batch in (first, first, [*first, *again]):
        assert [] == exporter(scene).handle(batch)
    only_line(scene)


def test_a_queue_that_is_down_fails_the_batch_before_metrics_and_after_counters(
    capsys: pytest.CaptureFixture[str],
):
    scene = run_job()
    records = scene.at.stream.take()
    with pytest.raises(AwsRefused, match="SendMessage"):
        project(scene, records, JOBLANE_DEPLOYMENT="none", JOBLANE_METRICS="true")
    assert "_aws" not in capsys.readouterr().out
    project(scene, records, JOBLANE_METRICS="true")
    assert "_aws" in capsys.readouterr().out
    assert 1 == len(messages(scene))


def test_messages_are_no_larger_than_what_sqs_charges_as_one():
    scene = run_job()
    (found,) = (
        each for r in scene.at.stream.take() if (each := read_exported(r, {"acme"})) is not None
    )
    sent = []

    class Noting:
        """Notes what is sent."""

        def send_message(self, **call: Any) -> None:
            """Note it."""
            sent.append(call["MessageBody"])

    assert ExportQueue(Noting(), QUEUE).send([found] * 200) == len(sent) > 1  # type: ignore[arg-type]
    assert all(len(body) <= MESSAGE_BYTES + 100 for body in sent)
    assert 200 == sum(len(json.loads(body)["exported"]) for body in sent)


def failing_for(tenant: str) -> Callable[..., str]:
    """A `put` that fails for one tenant."""

    def put(of: str, day: str, _lines: Sequence[str]) -> str:
        if of == tenant:
            raise AwsSilent(error="https://s3.test")
        return f"exports/tenant={of}/day={day}/x"

    return put


def test_only_messages_of_an_object_that_was_not_written_come_again():
    scene = run_job()
    project(scene)
    (message,) = messages(scene)
    other = json.loads(message["body"])
    other["exported"][0]["row"]["tenant"] = {"S": "other"}
    both = [message, {"messageId": "m9", "body": json.dumps(other)}]
    store: Any = type("Store", (), {"put": staticmethod(failing_for("other"))})()
    assert ["m9"] == replace(exporter(scene), store=store).handle(both)


def test_a_row_that_cannot_be_read_is_kept_for_an_operator_and_holds_up_no_other():
    scene = run_job()
    project(scene)
    (message,) = messages(scene)
    body = json.loads(message["body"])
    broken = json.loads(message["body"])["exported"][0]
    del broken["row"]["timeline"]
    body["exported"].append(broken)
    log = NotedLog()
    built = replace(exporter(scene), log=log)
    assert [] == built.handle([{**message, "body": json.dumps(body)}])
    assert "completed" == only_line(scene)["state"]
    (letter,) = scene.at.messages(DEAD)
    assert [broken] == letter["exported"]
    assert 1 == len(log.of("a job cannot be exported"))


def test_a_message_that_cannot_be_read_comes_again_and_then_is_a_dead_letter():
    scene = run_job()
    project(scene)
    both = [*messages(scene), {"messageId": "m9", "body": "no json"}]
    assert ["m9"] == exporter(scene).handle(both)
    only_line(scene)


def test_a_row_whose_submission_cannot_be_read_now_comes_again():
    scene = run_job(command=["x" * 2000])
    project(scene)

    class Gone:
        """A table that cannot be reached."""

        def head_of_image(self, _row: Any) -> None:
            """Fail."""
            raise AwsSilent(error="https://dynamodb.test")

    jobs: Any = Gone()
    assert ["m0"] == replace(exporter(scene), jobs=jobs).handle(messages(scene))
    assert {} == exported(scene)


def test_the_function_answers_what_failed(monkeypatch: pytest.MonkeyPatch):
    scene = run_job()
    monkeypatch.setattr(exporter_handler, "_application", lambda: exporter(scene))
    answer = exporter_handler.main({"Records": [{"messageId": "m1", "body": "{}"}]}, None)
    assert {"batchItemFailures": [{"itemIdentifier": "m1"}]} == answer


def test_a_plain_jobs_row_has_nothing_for_it():
    """The price of a job stays: nothing in the row says that it is exported."""
    scene = run_job()
    found = [each for r in scene.at.stream.take() if (each := read_exported(r, {"acme"}))]
    (end,) = found
    assert isinstance(end, Exported)
    assert "tells" not in end.row


HOW_TO = (Path(__file__).parents[3] / "docs/how-to/export-ended-jobs.md").read_text("utf-8")


def sql(name: str) -> str:
    """A statement of the how-to."""
    found = re.search(rf"^```sql {name}\n(.*?)^```", HOW_TO, re.MULTILINE | re.DOTALL)
    assert found is not None
    return found[1]


def test_the_how_tos_table_has_the_fields_of_a_line_as_columns():
    columns = sql("table").partition("(")[2].partition("\nPARTITIONED BY (")
    names = re.findall(r"(?:^|, |,\n|\(\n)\s*`?(\w+)`? [a-z]", columns[0])
    partitions = re.findall(r"(\w+) string", columns[2].partition(")")[0])
    assert ["tenant", "day"] == partitions
    assert {*ExportedJob.model_fields} - {"tenant"} == {*names}
    assert len(names) == len({*names})
    steps = re.findall(r"(\w+):", columns[0])
    assert [*ExportedStep.model_fields] == steps


def line(job_id: str, record: str, ended_at: str, sequence: int = 1) -> tuple[str, ...]:
    """A line of the table, as far as the view looks at it."""
    return "acme", job_id, record, f"2026-11-{ended_at}:00.000Z", f"{sequence:040}"


def test_the_how_tos_view_has_the_last_end_of_each_job_that_is_not_deleted():
    with closing(sqlite3.connect(":memory:")) as database:
        database.execute("CREATE TABLE joblane_records (tenant, id, record, ended_at, sequence)")
        lines = [
            line("once", "ended", "01T10:00"),
            line("once", "ended", "01T10:00"),  # written twice
            line("both", "expired", "01T10:00", 9),
            line("both", "ended", "01T10:00"),
            line("retried", "ended", "02T10:00", 2),
            line("retried", "ended", "01T10:00"),
            line("retried", "expired", "02T10:00", 3),
            line("lost", "expired", "01T10:00"),
            line("deleted", "ended", "01T10:00"),
            line("deleted", "deleted", "01T10:00", 2),
        ]
        database.executemany("INSERT INTO joblane_records VALUES (?, ?, ?, ?, ?)", lines)
        database.execute(sql("view").replace("CREATE OR REPLACE", "CREATE"))
        shown = database.execute("SELECT id, record, ended_at FROM joblane_jobs ORDER BY id")
        assert [
            ("both", "ended", "2026-11-01T10:00:00.000Z"),
            ("lost", "expired", "2026-11-01T10:00:00.000Z"),
            ("once", "ended", "2026-11-01T10:00:00.000Z"),
            ("retried", "ended", "2026-11-02T10:00:00.000Z"),
        ] == shown.fetchall()


def test_a_question_about_a_tenant_looks_at_no_line_of_another():
    """What a window is divided by is the only condition that goes below it, also in Athena."""
    with closing(sqlite3.connect(":memory:")) as database:
        database.execute("CREATE TABLE joblane_records (tenant, id, record, ended_at, sequence)")
        database.execute("CREATE INDEX by_tenant ON joblane_records (tenant)")
        database.execute(sql("view").replace("CREATE OR REPLACE", "CREATE"))
        asked = "EXPLAIN QUERY PLAN SELECT id FROM joblane_jobs WHERE tenant = 'acme'"
        plan = " ".join(row[-1] for row in database.execute(asked))
        assert "by_tenant (tenant=?)" in plan


def test_a_line_takes_no_more_than_the_costs_page_says():
    scene, bits = Scene(), random.Random(1)
    for _ in range(50):
        job_id = new_id(scene.now, bits.getrandbits(80))
        scene.head = make_head(job_id, "acme", submission(), scene.now)
        scene.put()
        scene.head = scene.at.aws.jobs.claim(named(scene.head.job_id), "agent-1", scene.later())
        scene.settle(State.COMPLETED, Outcome.SUCCEEDED, exit_code=0)
    project(scene)
    exporter(scene).handle(messages(scene))
    ((name, lines),) = exported(scene).items()
    assert 50 == len(lines)
    s3 = scene.at.aws.clients.make("s3")
    size = s3.head_object(Bucket=DESCRIPTOR.bucket, Key=name)["ContentLength"]
    assert size / 50 <= EXPORTED_BYTES
