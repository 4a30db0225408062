"""Answers are objects of the API's models, and handles of jobs have what one does with a job."""

from functools import partial
from typing import Any

import pytest

from joblane import JobFailedError
from joblane.client.answer import Answer
from joblane.client.models import (
    Accepted,
    BatchAnswer,
    Job,
    NotAccepted,
    QueuePage,
    TypeView,
    Why,
)
from scripts.docs.openapi import EXAMPLES
from tests.support.client.fake_api import FakeApi, ok


def example(model: str) -> Any:
    """The first example of the document."""
    return next(iter(EXAMPLES[model].values()))


def test_fields_are_read_as_their_models():
    given = example("QueuePage")
    queue = QueuePage(given).entries[0]
    assert given["entries"][0]["name"] == queue.name
    assert given["entries"][0]["lanes"][0]["lane"] == queue.lanes[0].lane
    assert given["entries"][0]["settings"]["run_jobs"] is queue.settings.run_jobs
    assert given == QueuePage(given).model_dump()


def test_an_entry_of_a_batch_is_what_its_fields_say():
    entries = BatchAnswer(example("BatchAnswer")).entries
    assert {Accepted, NotAccepted} == {type(entry) for entry in entries}


def test_what_a_newer_api_has_is_there_and_what_it_left_out_is_none():
    job: Any = Job({"id": "01J", "state": "newer", "limits": None, "something_new": {"a": 1}})
    assert ("newer", None, {"a": 1}) == (job.state, job.agent, job.something_new)
    assert job.limits is None
    with pytest.raises(AttributeError, match="Job has no field stat"):
        job.stat  # noqa: B018 - it is read
    assert {"state", "something_new", "model_dump"} <= set(dir(job))
    assert "Job(id='01J', state='newer')" == repr(job)
    assert job == Job(job.model_dump())
    assert job != Job({"id": "01J"})


def test_what_is_not_of_its_type_stays_json():
    assert "odd" == Job({"limits": "odd"}).limits
    assert {"a": {"b": 1}} == TypeView({"params_schema": {"a": {"b": 1}}}).params_schema


def test_every_example_reads_as_its_model():
    from joblane.client import models

    def walk(value: object) -> int:
        if isinstance(value, list):
            return sum(map(walk, value))
        if not isinstance(value, Answer):
            return 0
        return 1 + sum(walk(getattr(value, name)) for name in value.model_dump())

    read = {
        name: walk(getattr(models, name)(example(name)))
        for name in EXAMPLES
        if hasattr(models, name)
    }
    assert len(read) > 40
    assert 0 not in read.values()


def test_wait_raises_for_a_job_that_did_not_complete_if_it_is_to_check(api: FakeApi, client: Any):
    api.on_submit = lambda job: job.end("dead", exit_code=3, reason="exit code 3")
    job = client.submit(["false"])
    assert "dead" == job.wait().state
    waits: list[Any] = [partial(job.wait, check=True), partial(client.wait, job.id, check=True)]
    for wait in waits:
        with pytest.raises(JobFailedError, match=f"job {job.id} is dead: exit code 3") as caught:
            wait()
        assert ("dead", 3) == (caught.value.job.state, caught.value.job.exit_code)
    api.jobs[job.id].end("completed")
    assert "completed" == job.wait(check=True).state == client.wait(job.id, check=True).state


def test_a_handle_has_the_calls_and_fields_of_its_job(api: FakeApi, client: Any):
    fake = api.add("01J", name="nightly", labels={"team": "web"}, agent="i-1")
    job = client.get("01J")
    assert ("nightly", {"team": "web"}, "i-1") == (job.name, job.labels, job.agent)
    assert ("2026-11-21T02:00:00.000Z", False) == (job.created_at, job.is_group)
    assert (None, {}, None) == ((bare := client.submit(["true"])).name, bare.labels, bare.agent)

    api.answers["/v1/jobs/01J/why"] = ok(example("Why"))
    assert example("Why")["summary"] == job.why().summary
    assert isinstance(job.why(), Why)
    stopping = {**fake.data, "note": "its processes are stopped", "reason": "is being cancelled"}
    api.answers["/v1/jobs/01J/cancel"] = ok(stopping, 202)
    assert "its processes are stopped" == job.cancel(reason="late").note
    assert "is being cancelled" == job.reason
    assert {"reason": "late"} == api.requests[-1].body
    api.answers["/v1/jobs/01J/retry"] = ok({**fake.data, "state": "pending"}, 202)
    assert "pending" == job.retry(same_version=True).state
    assert {"same_version": True} == api.requests[-1].body


def test_a_batch_has_a_handle_or_an_error_for_each(api: FakeApi, client: Any):
    job = api.add("01J").data
    refused = {"status": 409, "detail": "full", "errors": [], "reason": "active-limit", "active": 1}
    api.answers["/v1/jobs/batch"] = ok({"entries": [{"status": 202, "job": job}, refused]})
    first, second = client.submit_batch([{"command": ["true"]}] * 2)
    assert ("01J", None) == (first.job.id, first.error)
    assert (None, 409, 1) == (second.job, second.error.status, second.error.active)
    assert 409 == second.data.status


def test_pages_of_a_sweep_are_objects(api: FakeApi, client: Any):
    api.answers["/v1/jobs/cancel"] = ok(example("JobsCancelled") | {"next": None})
    (page,) = client.cancel_jobs(state="pending")
    assert example("JobsCancelled")["cancelled"] == page.cancelled
