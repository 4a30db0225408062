"""The pass of renewal: who gets a message, what is kept, and what happens when something fails."""

import json
from collections import Counter
from collections.abc import Callable
from itertools import count
from typing import Any

import pytest
from botocore.exceptions import ClientError

from joblane.aws.clients import Clients
from joblane.aws.files.store import FileStore
from joblane.deployment.metrics import OF_RENEWAL
from joblane.deployment.names import inbox_name
from joblane.errors import Unavailable
from joblane.formats.times import rfc3339
from joblane.group.record import PAGE
from joblane.job.head import DATA_DAYS
from joblane.job.renewal import DAY_S
from joblane.service.job.renewal import MOST_TRIES
from joblane.state.lifecycle import State
from scripts.costs.prices import dollars_per_million
from tests.support.aws import DESCRIPTOR, NAME
from tests.support.groups import place_left
from tests.support.meter import Meter
from tests.support.renewal import NOW, Calendar

NOW_MS = int(NOW * 1000)

LARGE: dict[str, Any] = {"command": ["a", *["x" * 100_000] * 3]}


@pytest.fixture(name="at")
def _at() -> Calendar:
    return Calendar()


def put_old_jobs(at: Calendar, count: int, **fields: Any) -> list[str]:
    jobs = at.submit_many(count, **fields)
    at.forget_messages()
    return jobs


# --- who gets a message


def in_backoff(at: Calendar, job: str) -> None:
    at.end(job, State.RETRY, at.now_ms() + 20 * DAY_S * 1000)


STATES: dict[State, Callable[[Calendar, str], object]] = {
    State.PENDING: lambda _at, _job: None,
    State.ACTIVE: lambda at, job: at.claim(job),
    State.RETRY: in_backoff,
    State.BLOCKED: lambda at, job: at.end(job, State.BLOCKED),
    State.DEAD: lambda at, job: at.end(job, State.DEAD),
}


@pytest.mark.parametrize("state", STATES)
def test_a_job_gets_a_message_in_the_states_in_which_it_may_have_one(at: Calendar, state: State):
    (job,) = put_old_jobs(at, 1)
    STATES[state](at, job)
    before = at.aws.job(job)
    assert state is before.state
    at.to_a_pass()
    done = at.minute()
    expected = {} if state is State.DEAD else {"Renewed": 1}
    assert expected == done
    assert set(expected) == ({"Renewed"} if job in at.messages() else set())
    assert before == at.aws.job(job)  # its row has no mark


def test_a_job_that_waits_for_its_time_or_its_key_gets_none(at: Calendar):
    key: dict[str, Any] = {"concurrency": {"key": ["k"], "max_queued": 1}}
    holder, queued = at.submit(**key), at.submit(**key)
    later = at.submit(run_at=rfc3339(at.now_ms() + 25 * DAY_S * 1000))
    assert [State.WAITING, State.SCHEDULED] == [at.aws.job(j).state for j in (queued, later)]
    at.forget_messages()
    at.to_a_pass()
    assert {"Renewed": 1} == at.minute()
    assert {holder} == at.messages().keys()


def test_only_jobs_that_came_to_a_multiple_of_nine_days_are_renewed(at: Calendar):
    jobs = {}
    for day in range(20):
        jobs[day] = at.submit()
        at.clock.now += DAY_S
    at.forget_messages()
    at.to_a_pass(days=0)  # the pass before began on day 16
    assert {"Renewed": 7} == at.minute()
    # Of 8 days and less on day 16, and of 9 or more on day 20; and as much about 18 days.
    assert {jobs[day] for day in (0, 1, 2, 8, 9, 10, 11)} == at.messages().keys()
    assert {} == at.minute()


def test_jobs_of_all_tenants_and_queues_are_renewed(at: Calendar):
    jobs = {at.submit(), at.submit(queue="bulk", priority="high"), at.submit("other")}
    at.forget_messages()
    at.to_a_pass()
    assert {"Renewed": 3} == at.minute()
    assert jobs == at.messages().keys()


def test_members_of_a_group_are_renewed_with_it_and_a_targeted_job_in_its_inbox(at: Calendar):
    names = [f"web-{number:03}" for number in range(PAGE + 1)]
    at.beat(*names)
    group, before = at.submit(target="_all", reply_timeout_s=86_400), at.submit()
    place_left(at.aws.clients, group, NOW)
    alone = at.submit(target="host:web-007", reply_timeout_s=86_400)
    found = at.aws.job(group).group
    assert found is not None
    members = [found.id_of(number) for number in range(PAGE + 1)]
    at.end(members[0], State.FAILED)
    at.end(members[1], State.BLOCKED)
    at.forget_messages()
    at.to_a_pass()
    assert {"Renewed": PAGE + 2} == at.function().renew(lambda: 60.0)
    assert {*members[1:], alone, before} == at.messages().keys()
    inbox = DESCRIPTOR.queue_url_prefix + inbox_name(NAME, "web-007")
    assert 2 == len(at.memory.queues.of(inbox))


def test_a_group_that_is_deleted_meanwhile_is_skipped(at: Calendar):
    job = at.submit()
    at.clock.now += 1
    gone = at.submit()
    at.forget_messages()
    at.to_a_pass()
    at.write(began_ms=at.now_ms(), since_ms=NOW_MS, tenant="acme", place=f"{gone}:0")
    assert {"Renewed": 1} == at.minute()
    assert {job} == at.messages().keys()
    assert at.renewal().tenant is None


# --- what cannot be done


def test_jobs_of_queues_that_are_gone_are_skipped_and_counted(at: Calendar):
    """Those of SQS, and those of joblane.toml."""
    jobs = [at.submit(), at.submit(queue="bulk"), at.submit(queue="bulk", priority="low")]
    at.forget_messages()
    at.to_a_pass()
    at.memory.queues.unmake(DESCRIPTOR.lane_url("bulk", "low"))
    assert {"Renewed": 2, "WithoutQueue": 1} == at.minute()
    assert {*jobs[:2]} == at.messages().keys()
    at.environment["JOBLANE_QUEUES"] = '{"default": []}'
    at.to_a_pass(days=6)
    assert {"Renewed": 1, "WithoutQueue": 2} == at.minute()
    assert at.renewal().tenant is None


def refuse(at: Calendar, *operations: str, code: str = "ServiceUnavailable") -> Clients:
    """Clients whose calls of these operations fail."""
    session = at.memory.session()

    def fail(model: Any, **_: Any) -> None:
        if model.name in operations:
            raise ClientError({"Error": {"Code": code}}, model.name)

    session.get_component("event_emitter").register("before-call", fail)
    return Clients(session)


def test_what_aws_does_not_do_is_tried_again_each_minute(at: Calendar):
    jobs = put_old_jobs(at, 3)
    at.to_a_pass()
    for tries in (1, 2):
        assert {} == at.minute(refuse(at, "SendMessageBatch"))
        assert ("", None, tries) == (at.renewal().tenant, at.renewal().place, at.renewal().tries)
        at.clock.now += 60
    assert {"Failed": 1} == at.minute(refuse(at, "UpdateItem"))
    with pytest.raises(Unavailable):
        at.function(refuse(at, "Query")).renew(lambda: 60.0)
    assert {"Renewed": 3} == at.minute()
    assert set(jobs) == at.messages().keys()


def test_a_page_that_aws_refuses_for_an_hour_does_not_hold_up_the_others(at: Calendar):
    put_old_jobs(at, 3)
    at.to_a_pass()
    for _ in range(MOST_TRIES):
        at.clock.now += 60
        assert {} == at.minute(refuse(at, "SendMessageBatch"))
    assert {"GivenUp": 3} == at.minute(refuse(at, "SendMessageBatch"))
    assert at.renewal().tenant is None


def for_one_page() -> Callable[[], float]:
    """The seconds that are left to a run: enough to begin, and for a page without files."""
    calls = count()
    return lambda: 1.0 if next(calls) < PAGE + 1 else 0.0


def test_a_pass_ends_with_the_time_and_goes_on_in_the_next_run(at: Calendar):
    jobs = put_old_jobs(at, 2 * PAGE + 1)
    at.to_a_pass()
    assert {"Renewed": PAGE} == at.function().renew(for_one_page())
    place = at.renewal().place
    assert place is not None
    assert place in jobs
    assert {"Renewed": PAGE + 1} == at.minute()
    assert all(1 == len(ages) for ages in at.messages().values())
    assert set(jobs) == at.messages().keys()


def test_of_two_runs_at_once_one_goes_on_with_the_pass(at: Calendar):
    put_old_jobs(at, PAGE + 1)
    at.to_a_pass()
    session = at.memory.session()
    emitter = session.get_component("event_emitter")
    done: list[Counter[str]] = []

    def meanwhile(**_: Any) -> None:
        if not done:
            done.append(Counter())
            done[0] += at.minute()

    emitter.register("before-call.sqs.SendMessageBatch", meanwhile)
    slow = at.minute(Clients(session))
    assert [{"Renewed": PAGE + 1}] == done
    assert {"Renewed": PAGE} == slow  # a page of it was sent twice, and that was all
    assert {"Renewed": PAGE + 1} == at.renewal().counts


# --- files


def test_files_and_submissions_of_waiting_jobs_live_on(at: Calendar):
    young = at.upload(b"young")
    stdin, data = at.upload(b"stdin"), at.upload(b"data")
    inputs = [{"path": "a", "sha256": data}, {"path": "b", "sha256": data}]
    at.submit(inputs=inputs, stdin_file=stdin)
    large = at.submit(**LARGE, inputs=[{"path": "a", "sha256": data}])
    at.end(at.submit(inputs=[{"path": "a", "sha256": young}]), State.DEAD)
    at.to_a_pass(days=16)
    at.upload(b"young")
    assert {} == at.minute()  # at no multiple of 9 days
    at.to_a_pass(days=12)
    assert {"Renewed": 2, "FilesKept": 2} == at.minute()
    store = FileStore(lambda: at.aws.clients.make("s3"), DESCRIPTOR.bucket)
    for digest, content in ((stdin, b"stdin"), (data, b"data")):
        found = store.find("acme", digest)
        assert found is not None
        assert (at.clock.now, len(content)) == (found.uploaded_at, found.size)
    at.to_a_pass(days=18)
    assert {"Renewed": 2, "FilesKept": 1} == at.minute()  # the submission
    payload = at.aws.job(large).payload
    assert payload is not None
    about = at.aws.clients.make("s3").head_object(Bucket=DESCRIPTOR.bucket, Key=payload.object)
    assert (at.clock.now, "application/json") == (
        about["LastModified"].timestamp(),
        about["ContentType"],
    )


@pytest.mark.parametrize(("state", "run_at_days"), [(State.PENDING, 0), (State.SCHEDULED, 80)])
def test_a_file_that_was_old_when_its_job_was_submitted_lives_on(
    at: Calendar, state: State, run_at_days: int
):
    digest = at.upload(b"data")
    at.clock.now += 29.9 * DAY_S
    run_at = rfc3339(at.now_ms() + run_at_days * DAY_S * 1000)
    job = at.submit(inputs=[{"path": "a", "sha256": digest}], run_at=run_at)
    done = at.pass_days(75)
    assert (state, 0) == (at.aws.job(job).state, done["FilesMissing"])
    store = FileStore(lambda: at.aws.clients.make("s3"), DESCRIPTOR.bucket)
    assert store.find("acme", digest) is not None


def test_a_file_that_is_gone_is_counted_and_one_of_many_jobs_is_looked_at_once(
    at: Calendar, meter: Meter
):
    digest = at.upload(b"data")
    put_old_jobs(at, 5, inputs=[{"path": "a", "sha256": digest}])
    at.to_a_pass(days=45)
    at.expire()
    assert {"Renewed": 5, "FilesMissing": 1} == at.minute(meter.clients_of(at.aws))
    assert (1, 0) == (meter.calls["s3.HeadObject"], meter.calls["s3.CopyObject"])


def test_a_job_whose_file_cannot_be_copied_is_left_out_after_an_hour(at: Calendar):
    data, other = at.upload(b"data"), at.upload(b"other")
    first = at.submit(inputs=[{"path": "a", "sha256": data}])
    at.clock.now += 1
    bad = at.submit(inputs=[{"path": "a", "sha256": other}])
    at.clock.now += 1
    last = at.submit()
    at.forget_messages()
    at.to_a_pass(days=28)
    session = at.memory.session()

    def fail(params: dict[str, Any], **_: Any) -> None:
        if other in params["Key"]:
            raise ClientError({"Error": {"Code": "SlowDown"}}, "CopyObject")

    emitter = session.get_component("event_emitter")
    emitter.register("provide-client-params.s3.CopyObject", fail)
    assert {"Renewed": 1} == at.minute(Clients(session))
    assert {last} == at.messages().keys()
    for _ in range(MOST_TRIES):
        assert {} == at.minute(Clients(session))
    expected = {"Renewed": 2, "FilesKept": 1, "GivenUp": 1}
    assert expected == at.minute(Clients(session))
    assert {first, bad, last} == at.messages().keys()


def test_a_long_submission_in_the_table_lives_on_for_as_long_as_its_job_waits(at: Calendar):
    job = at.submit(command=["a" * 5000])
    at.pass_days(3 * DATA_DAYS, every_s=DAY_S)
    assert ("a" * 5000,) == at.aws.job(job).spec.command
    assert job in at.messages()


def test_the_submission_of_a_job_that_starts_in_years_is_left_as_it_is(at: Calendar):
    run_at = rfc3339(at.now_ms() + 1000 * DAY_S * 1000)
    job = at.submit(command=["a" * 5000], run_at=run_at)
    rows = at.memory.tables.rows[DESCRIPTOR.jobs_table]
    before = rows[job, "DATA"]
    at.to_a_pass(days=200)
    assert {} == at.minute()
    assert before == rows[job, "DATA"]


# --- what it costs, and what is told


def test_a_pass_costs_what_is_due(at: Calendar, meter: Meter):
    """Of a hundred jobs with a short submission; docs/explanation/costs.md has the month."""
    put_old_jobs(at, PAGE)
    at.clock.now += 7 * DAY_S
    put_old_jobs(at, 3 * PAGE)  # they are read by nobody
    at.to_a_pass(days=5)
    done = at.function(meter.clients_of(at.aws)).renew(lambda: 60.0)
    assert {"Renewed": PAGE} == done
    # A query finds a page, one the end of the list, and one that of the other tenant. The place is
    # written at the begin, and after each of them.
    assert {
        "dynamodb.BatchGetItem": 1 + 1,
        "dynamodb.Query": 3,
        "dynamodb.UpdateItem": 1 + 3,
        "sqs.SendMessageBatch": PAGE // 10,
    } == meter.calls
    assert (4, 1 + PAGE + PAGE) == (meter.write_units, meter.rows_read)  # keys, then heads
    times = 30 / 9
    price = dollars_per_million(
        write_units=times * 0.01, read_units=times * 0.5, sqs_requests=times * 0.1
    )
    print(f"a million jobs that wait for a month: ${price:.2f} for their messages")


def test_a_file_costs_a_head_each_nine_days_and_a_put_each_month(at: Calendar, meter: Meter):
    at.submit(inputs=[{"path": "a", "sha256": at.upload(b"data")}])
    function = at.function(meter.clients_of(at.aws))
    for _ in range(180):
        at.clock.now += DAY_S
        at.expire()
        function.renew(lambda: 60.0)
    heads, puts = meter.calls["s3.HeadObject"], meter.calls["s3.CopyObject"]
    assert (20, 6) == (heads, puts)
    price = dollars_per_million(
        write_units=0, read_units=0, sqs_requests=0, s3_gets=heads / 6, s3_puts=puts / 6
    )
    print(f"a million files of jobs that wait for a month: ${price:.2f}")


def test_nothing_is_read_but_how_far_the_pass_is_while_none_is_due(at: Calendar, meter: Meter):
    put_old_jobs(at, 3)
    at.clock.now += 3 * DAY_S
    assert {} == at.function(meter.clients_of(at.aws)).renew(lambda: 60.0)
    assert {"dynamodb.BatchGetItem": 1} == meter.calls
    assert 1 == meter.rows_read


def test_a_pass_is_told_when_it_is_over(
    capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
):
    at = Calendar(JOBLANE_METRICS="true")
    put_old_jobs(at, PAGE + 1)
    at.to_a_pass()
    at.function().renew(for_one_page())
    assert "RenewalSeconds" not in capsys.readouterr().out
    at.clock.now += 60
    at.minute()
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    (metrics,) = [line for line in lines if "_aws" in line]
    counts = {**dict.fromkeys(OF_RENEWAL, 0), "Renewed": PAGE + 1}
    assert counts | {"RenewalSeconds": 60, "Deployment": NAME} == {
        name: value for name, value in metrics.items() if name != "_aws"
    }
    (entry,) = [each for each in caplog.records if "jobs renewed" in each.getMessage()]
    assert ({"Renewed": PAGE + 1}, 60) == (vars(entry)["counts"], vars(entry)["seconds"])
