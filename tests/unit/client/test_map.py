"""`map` of the clients: a job for each value, its result, and errors of single jobs."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from pydantic import BaseModel

from joblane import (
    InputError,
    Job,
    JobFailedError,
    KeyFullError,
    NotFoundError,
    RequestError,
    ResultError,
    job_type,
)
from joblane.client import fan_out
from joblane.client.follow import FollowPolicy
from joblane.formats.ids import nth_id
from tests.support.client.clients import Connect
from tests.support.client.fake_api import CUT, FakeApi, FakeJob, Fault, Request, ok, problem
from tests.support.client.fake_group import GROUP, FakeGroup

FIRST = "01MCC5RM002VP5C98RFS3H2QM0"
QUICK = FollowPolicy(busy_s=0.01, idle_max_s=0.01, first_retry_s=0.01, retry_max_s=0.05)


class Batches:
    """Answers of `POST /v1/jobs/batch`."""

    def __init__(self, api: FakeApi) -> None:
        self.api = api
        self.keys: list[str] = []
        self.sizes: list[int] = []
        self.refused: dict[int, dict[str, Any]] = {}
        """Entries of refused jobs, by their number."""
        self.on_job: Callable[[int, FakeJob], None] = lambda _number, job: job.end()
        self._answers: dict[str, Fault] = {}
        self._count = 0
        api.more = self.answer

    def answer(self, request: Request) -> Fault | None:
        """Accept a request, once for each key."""
        if request.path != "/v1/jobs/batch":
            return None
        key = request.headers["Idempotency-Key"]
        self.keys.append(key)
        if key not in self._answers:
            self.sizes.append(len(request.body["jobs"]))
            self._answers[key] = ok({"entries": [self._entry(job) for job in request.body["jobs"]]})
        return self._answers[key]

    def _entry(self, body: dict[str, Any]) -> dict[str, Any]:
        number, self._count = self._count, self._count + 1
        if number in self.refused:
            return self.refused[number]
        job = self.api.add(nth_id(FIRST, number), **body)
        entry = {"status": 202, "job": {**job.data, "state": "pending"}}
        self.on_job(number, job)
        return entry


@pytest.fixture(name="batches")
def _batches(api: FakeApi) -> Batches:
    return Batches(api)


def test_a_job_for_each_value_in_order(api: FakeApi, batches: Batches, client: Any):
    """The first job ends last: the others wait for it, or come as they end."""
    batches.on_job = lambda number, job: job.end() if number else None
    reads = 0

    def before(_request: Request) -> None:
        nonlocal reads
        reads += 1
        if reads % 5 == 0:
            api.jobs[nth_id(FIRST, reads // 5 * 3 - 3)].end()

    api.before = before
    command = ["./page", "--number={}", "{}"]
    found = list(client.map(command, [1, "two", 3.5], policy=QUICK, name="page"))
    assert [(0, 1), (1, "two"), (2, 3.5)] == [(each.index, each.value) for each in found]
    assert [nth_id(FIRST, n) for n in range(3)] == [each.job.id for each in found]
    assert all(each.result() is each.job and each.error is None for each in found)
    api.before = lambda _request: None
    api.requests.clear()
    batches.on_job = lambda number, job: job.end() if number != 3 else None
    items = client.map(command, [1, 2, 3], policy=QUICK, as_completed=True)
    early = [next(items).index, next(items).index]
    assert [1, 2] == early
    api.jobs[nth_id(FIRST, 3)].end()
    assert [0] == [each.index for each in items]
    assert api.requests[0].body["jobs"][1] == {"command": ["./page", "--number=2", "2"]}


def test_an_error_of_one_job_does_not_lose_the_others(
    api: FakeApi, batches: Batches, client: Any, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(fan_out, "NEWBORN_S", 0.1)
    wrong = [{"field": "env", "problem": "too large"}]
    batches.refused[0] = {"status": 400, "detail": "Invalid", "errors": wrong}
    batches.refused[1] = {"status": 409, "detail": "full", "reason": "queue-depth", "queued": 7}

    def ends(number: int, job: FakeJob) -> None:
        if number == 2:
            job.end("dead", reason="exit code 3")
        elif number == 3:
            del api.jobs[job.data["id"]]
        else:
            job.end()

    batches.on_job = ends
    values = ["refused", "full", "fails", "deleted", object(), "fine", "fine too"]
    found = list(client.map(["{}"], values, policy=QUICK))
    errors = [RequestError, KeyFullError, JobFailedError, NotFoundError, InputError, None, None]
    assert errors == [each.error and type(each.error) for each in found]
    assert values == [each.value for each in found]
    assert "env" == found[0].error.fields[0].field
    assert 7 == found[1].error.queued
    assert [None, None, "dead", None, None, "completed", "completed"] == [
        each.job and each.job.state for each in found
    ]
    with pytest.raises(JobFailedError, match=r"is dead: exit code 3"):
        found[2].result()
    with pytest.raises(InputError, match="cannot stand for"):
        found[4].result()


@pytest.mark.parametrize("as_completed", [False, True])
def test_values_may_be_endless(
    api: FakeApi, batches: Batches, connect: Connect, *, as_completed: bool
):
    """No more is taken than the window: jobs that are open, and results that wait."""
    taken = 0

    def values() -> Iterator[int]:
        nonlocal taken
        while True:
            taken += 1
            yield taken

    with connect(api.url) as client:
        jobs = client.map(["{}"], values(), policy=QUICK, window=200, as_completed=as_completed)
        for number in range(450):
            next(jobs)
            assert taken <= number + 1 + 200
        jobs.close()
    assert {100} == set(batches.sizes)
    assert 5 <= len(batches.sizes) <= 7


def test_requests_are_repeated_with_their_key(api: FakeApi, batches: Batches, client: Any):
    """After a lost answer, and while there is no capacity for one of the jobs."""
    busy = ok(
        {
            "entries": [{"status": 202, "job": {"id": "1", "state": "pending"}}] * 99
            + [{"status": 429, "detail": "too many jobs"}]
        }
    )
    api.faults += [CUT, problem(503, "Service Unavailable"), busy]
    jobs = client.map(["{}"], range(150), policy=QUICK, idempotency_key="k")
    assert list(range(150)) == [each.value for each in jobs if each.error is None]
    assert ["k-1", "k-2"] == batches.keys
    assert [100, 50] == batches.sizes


def test_an_outage_is_waited_out(api: FakeApi, batches: Batches, client: Any):
    def ends(_number: int, job: FakeJob) -> None:
        job.end()
        api.faults.append(CUT)

    batches.on_job = ends
    assert 5 == len(list(client.map(["{}"], range(5), policy=QUICK)))


@pytest.mark.usefixtures("batches")
def test_a_function_makes_jobs(api: FakeApi, client: Any):
    made = {"command": ["b"], "timeout_s": 5, "labels": {"n": "1"}}
    jobs = [("a", "x"), made, "no command"]
    found = list(client.map(lambda n: jobs[n], [0, 1, 2], policy=QUICK, timeout_s=9, name="n"))
    assert api.requests[0].body == {
        "jobs": [{"timeout_s": 9, "name": "n", "command": ["a", "x"]}, {**made, "name": "n"}]
    }
    assert [None, None, InputError] == [each.error and type(each.error) for each in found]


class Page(BaseModel):
    """Params."""

    number: int


class Text(BaseModel):
    """A result."""

    words: int


@job_type("page")
def page(params: Page, _job: Job) -> Text:
    """Read a page."""
    return Text(words=params.number)


def test_handlers_give_their_results(api: FakeApi, batches: Batches, client: Any):
    results = [{"words": 5}, {"wrong": 1}, {"words": 7}]
    batches.on_job = lambda number, job: job.end(result=results[number])
    pages = [Page(number=n) for n in range(3)]
    found = list(client.map(page, iter([*pages, Text(words=1)]), policy=QUICK))
    assert {"type": "page", "params": {"number": 1}} == api.requests[0].body["jobs"][1]
    assert Text(words=5) == found[0].result()
    assert [None, ResultError, None, InputError] == [e.error and type(e.error) for e in found]


def ended_pages(api: FakeApi) -> FakeGroup:
    """An array of four pages: one fails, and one has a long result."""
    group = FakeGroup.of_array(api, 4)
    group.take_submissions()
    for index in (3, 0, 1):
        group.end(index)
        group.members[index]["result"] = {"words": index}
    group.end(2, "dead", reason="exit code 1")
    group.members[1] |= {"result": None, "result_size": 2000}
    api.jobs["01JM1"].data["result"] = {"words": 1}
    return group


@pytest.mark.parametrize("as_completed", [True, False])
def test_a_list_of_params_of_a_handler_is_an_array(api: FakeApi, client: Any, as_completed: bool):
    ended_pages(api)
    values = [Page(number=0), Text(words=1), *(Page(number=n) for n in (1, 2, 3))]
    found = list(client.map(page, values, window=2, as_completed=as_completed, policy=QUICK))
    body = api.requests[0].body
    assert ("page", 2) == (body["type"], body["max_concurrency"])
    assert {"values": [{"number": n} for n in range(4)]} == body["array"]
    assert ["/v1/jobs", f"/v1/groups/{GROUP}", "/v1/jobs/01JM1"] == [r.path for r in api.requests]
    assert "Idempotency-Key" in api.requests[0].headers
    if not as_completed:
        assert [0, 1, 2, 3, 4] == [each.index for each in found]
    found.sort(key=lambda each: each.index)
    assert values == [each.value for each in found]
    errors = [None, InputError, None, JobFailedError, None]
    assert errors == [each.error and type(each.error) for each in found]
    assert [0, 1, 3] == [each.result().words for each in found if not each.error]
    assert [None, "dead"] == [found[1].job, found[3].job.state]


def test_an_array_that_is_refused_becomes_jobs(api: FakeApi, batches: Batches, client: Any):
    """Such as one of a type with a key."""
    batches.on_job = lambda _number, job: job.end(result={"words": 1})
    api.answers["/v1/jobs"] = problem(400, "Bad Request", detail="array: its type has a key")
    values = [Page(number=n) for n in range(3)]
    assert 3 == sum(each.result().words for each in client.map(page, values, policy=QUICK))
    assert [3] == batches.sizes


@pytest.mark.parametrize(
    "options",
    [{"idempotency_key": "a"}, {"target": "host:a"}, {"concurrency": {"key": ["a"]}}],
)
def test_what_is_no_array(api: FakeApi, batches: Batches, client: Any, options: dict[str, Any]):
    batches.on_job = lambda _number, job: job.end(result={"words": 1})
    values = [Page(number=n) for n in range(2)]
    assert 2 == len(list(client.map(page, values, policy=QUICK, **options)))
    assert [2] == batches.sizes
    assert 0 == api.count("POST", "/v1/jobs")


def test_requests_are_no_larger_than_the_api_takes(
    batches: Batches, client: Any, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(fan_out, "BATCH_BYTES", 1000)
    words = ["a" * 400] * 5 + ["b" * 1000] + ["c"]
    found = list(client.map(["{}"], words, policy=QUICK))
    assert [2, 2, 2] == batches.sizes
    assert ["b" * 1000] == [each.value for each in found if each.error]
    assert words == [each.value for each in found]


def test_values_may_share_a_job(api: FakeApi, batches: Batches, client: Any):
    """Coalesced by their key."""
    job = api.add(FIRST)
    job.end()
    entry = {"status": 200, "job": {**job.data, "state": "pending", "admission": "coalesced"}}
    batches.refused = dict.fromkeys(range(3), entry)
    found = list(client.map(["{}"], range(3), policy=QUICK))
    assert [FIRST] * 3 == [each.job.id for each in found]


@pytest.mark.parametrize(
    ("command", "window", "message"),
    [
        ("echo {}", 100, "must be a list of words"),
        (["echo"], 100, "the command has no {}: write {} where the value stands"),
        (["{}"], 0, "window must be at least 1"),
    ],
)
def test_what_cannot_be(api: FakeApi, client: Any, command: Any, window: int, message: str):
    with pytest.raises(InputError, match=message):
        list(client.map(command, [1], window=window))
    assert api.requests == []


def test_no_values(api: FakeApi, client: Any):
    assert [] == list(client.map(["{}"], []))
    assert api.requests == []
