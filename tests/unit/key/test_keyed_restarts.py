"""Jobs with a key that are admitted later or again: scheduled, retried, replayed."""

from collections import Counter

import pytest

from functions.admin import handler as admin
from functions.requeue import handler as requeue
from functions.submission import handler as submission_function
from joblane.formats.times import rfc3339
from joblane.job.moves import AttemptFacts
from joblane.key.decide import End, release
from joblane.state.lifecycle import Outcome, State
from joblane.state.timeline import Step
from tests.support.aws import Cloud, configure
from tests.support.jobs import named
from tests.support.keys import KEY, START_MS, body, job, keys_of, put_keyed, stored, take_messages
from tests.support.requests import Api

NOW = START_MS / 1000
LATER_MS = START_MS + 3_600_000
LATER = NOW + 3_600


@pytest.fixture(name="api")
def _api(aws: Cloud) -> Api:
    settings = configure(submission_function.Settings)
    return Api(submission_function.build(settings, aws.clients, lambda: NOW))


@pytest.fixture(name="operator")
def _operator(aws: Cloud) -> Api:
    return Api(admin.build(configure(admin.Settings), aws.clients, lambda: NOW))


def minute(aws: Cloud, at: float = LATER) -> Counter[str]:
    """Run the requeue function."""
    return requeue.build(configure(requeue.Settings), aws.clients, lambda: at).run(lambda: 60.0)


def schedule(api: Api, **concurrency: object) -> str:
    """Submit a job for later; returns its id."""
    status, found = api("POST", "/v1/jobs", {**body(**concurrency), "run_at": rfc3339(LATER_MS)})
    assert (202, "scheduled", None) == (status, found["state"], found["slot"])
    return str(found["id"])


def fail(aws: Cloud, job_id: str, state: State = State.FAILED) -> None:
    """Let an agent end a job."""
    head = aws.jobs.claim(named(job_id), "agent-1", START_MS)
    step = Step(state, START_MS, head.attempt, "exit code 65")
    aws.jobs.settle(head, step, AttemptFacts(Outcome.FAILED, expires_at=int(NOW) + 9_999))


def handle_ends(aws: Cloud, *ends: End) -> None:
    """What sequel does with the ends of jobs."""
    seen = stored(aws)
    state = release(seen.state, ends).state
    assert state is not None
    keys_of(aws).write(seen, state, START_MS)


# --- scheduled


def test_a_scheduled_job_takes_no_slot_and_has_no_message_before_it_is_due(aws: Cloud, api: Api):
    schedule(api)
    soon = {**body(), "run_at": rfc3339(START_MS + 60_000)}
    assert "scheduled" == api("POST", "/v1/jobs", soon)[1]["state"]
    assert (0, 0) == (stored(aws).version, take_messages(aws))
    assert {} == minute(aws, NOW)


def test_a_job_that_is_due_gets_a_slot_and_its_message(aws: Cloud, api: Api):
    job_id = schedule(api)
    assert {"Woken": 1} == minute(aws)
    head = aws.job(job_id)
    assert (State.PENDING, {job_id: head.slot}) == (head.state, stored(aws).state.active)
    assert (None, 1) == (head.wake_at_ms, take_messages(aws))


def test_a_job_that_is_due_waits_for_a_slot(aws: Cloud, api: Api):
    put_keyed(aws, active="A")
    job_id = schedule(api, max_queued=1)
    assert {"Queued": 1} == minute(aws)
    head = aws.job(job_id)
    assert (State.WAITING, None, None) == (head.state, head.slot, head.wake_at_ms)
    assert head.reason.startswith("its run_at has come; waits for a slot of key")
    assert ((job_id,), 0) == (stored(aws).state.queued, take_messages(aws))


def test_a_job_that_is_due_is_skipped_if_its_key_is_full(aws: Cloud, api: Api):
    put_keyed(aws, active="A")
    job_id = schedule(api)
    assert {"Skipped": 1} == minute(aws)
    head = aws.job(job_id)
    assert (State.SKIPPED, None) == (head.state, head.wake_at_ms)
    assert head.expires_at is not None
    assert 'key ["customer", "acme"] is full: 1 of 1 jobs active' in head.reason


def test_a_job_that_is_due_names_the_one_that_stands_for_it(aws: Cloud, api: Api):
    put_keyed(aws, active="A")
    job_id = schedule(api, when_full="coalesce")
    assert {"Skipped": 1} == minute(aws)
    assert f"job {job('A')} of the same key" in aws.job(job_id).reason


def test_a_job_that_is_due_replaces_the_first_that_waits(aws: Cloud, api: Api):
    put_keyed(aws, active="A", queued="B")
    job_id = schedule(api, when_full="replace-oldest", max_queued=1)
    assert {"Queued": 1} == minute(aws)
    assert State.SKIPPED is aws.job(job("B")).state
    assert (job_id,) == stored(aws).state.queued


def test_a_deadline_ends_a_job_that_waits_for_its_key(aws: Cloud, api: Api):
    put_keyed(aws, active="A")
    late = {**body(max_queued=1), "deadline": rfc3339(LATER_MS)}
    _, waiting = api("POST", "/v1/jobs", late)
    assert "waiting" == waiting["state"]
    assert {"Expired": 1} == minute(aws)
    assert State.EXPIRED is aws.job(waiting["id"]).state


# --- retried, replayed


def test_a_retry_takes_a_new_slot(aws: Cloud, api: Api):
    before = put_keyed(aws, active="A")["A"].slot
    fail(aws, job("A"))
    handle_ends(aws, End(job("A"), before))
    status, back = api("POST", f"/v1/jobs/{job('A')}/retry")
    assert (202, "pending", 0) == (status, back["state"], back["attempt"])
    assert {job("A"): back["slot"]} == stored(aws).state.active
    assert back["slot"] > (before or 0)
    assert (None, 1) == (aws.job(job("A")).wake_at_ms, take_messages(aws))


def test_a_retry_before_the_end_was_handled_keeps_the_slot_under_a_new_number(aws: Cloud, api: Api):
    """The end of the earlier slot comes late, and frees nothing."""
    before = put_keyed(aws, active="A")["A"].slot
    fail(aws, job("A"))
    _, back = api("POST", f"/v1/jobs/{job('A')}/retry")
    seen = stored(aws)
    assert {job("A"): back["slot"]} == seen.state.active
    assert release(seen.state, [End(job("A"), before)]).state is None


def test_a_replay_waits_for_its_slot(aws: Cloud, api: Api, operator: Api):
    _, first = api("POST", "/v1/jobs", body(max_queued=1))
    fail(aws, first["id"], State.DEAD)
    handle_ends(aws, End(first["id"], first["slot"]))
    _, second = api("POST", "/v1/jobs", body(max_queued=1))
    status, back = operator("POST", f"/v1/dlq/{first['id']}/replay")
    assert (202, "waiting", None) == (status, back["state"], back["slot"])
    assert 'waits for a slot of key ["customer", "acme"]' in back["reason"]
    key = stored(aws).state
    assert ((first["id"],), [second["id"]]) == (key.queued, list(key.active))
    head = aws.job(first["id"])
    assert key.grants == head.queued_after
    handle_ends(aws, End(second["id"], second["slot"]))
    slot = stored(aws).state.active[first["id"]]
    granted = aws.jobs.grant(first["id"], KEY, slot, Step(State.PENDING, START_MS, 0, "granted"))
    assert (State.PENDING, slot) == (granted.state, granted.slot)


def test_a_retry_is_refused_while_the_key_is_full(aws: Cloud, api: Api, operator: Api):
    _, first = api("POST", "/v1/jobs", body())
    fail(aws, first["id"])
    handle_ends(aws, End(first["id"], first["slot"]))
    api("POST", "/v1/jobs", body())
    status, problem = api("POST", f"/v1/jobs/{first['id']}/retry")
    assert 409 == status
    assert problem["detail"].startswith('key ["customer", "acme"] is full: 1 of 1 jobs active')
    _, answer = operator("POST", "/v1/queues/default/restart-failed")
    assert problem["detail"] == answer["refused"][0]["detail"]
    assert State.FAILED is aws.job(first["id"]).state


def test_operators_send_no_message_for_a_job_that_waits(aws: Cloud, operator: Api):
    put_keyed(aws, active="A", queued="B")
    _, answer = operator("POST", "/v1/queues/_all/requeue")
    assert (2, 1, 1) == (answer["examined"], answer["requeued"], take_messages(aws))
