"""Arrays in `joblane.testing`: by the real code, from the submission to the retry of an index."""

from datetime import UTC, datetime, timedelta

import pytest
from pydantic import BaseModel

from joblane import Array, Job, RequestError, Retry, job_type
from joblane.testing import End, FakeDeployment, Running


class Number(BaseModel):
    """Params."""

    n: int


LOST: set[int] = set()
"""Numbers that fail."""


@job_type("square", retry={"max_attempts": 1})
def square(params: Number, _job: Job) -> int:
    """Multiply."""
    if params.n in LOST:
        raise ValueError(f"no {params.n} today")
    return params.n**2


def test_an_array_from_its_submission_to_the_retry_of_an_index():
    LOST.clear()
    LOST.add(3)
    client = FakeDeployment([square]).client()
    job = client.submit(square, array={"values": [Number(n=n) for n in range(5)]}).wait()
    assert "partial_failure" == job.state
    page = client.groups.page(job.id, limit=1)
    assert ({"completed": 4, "dead": 1}, "3") == (page.counts, page.failed_indices)
    found = {each.index: each.result() for each in job.results() if not each.error}
    assert {0: 0, 1: 1, 2: 4, 4: 16} == found
    ids = [each.id for each in client.groups.members(job.id)]
    LOST.clear()
    (swept,) = client.groups.retry(job.id, indices="2-3")
    assert (1, [(2, ids[2])]) == (swept.retried, [(each.index, each.id) for each in swept.refused])
    assert "completed" == job.wait(check=True).state
    assert [n**2 for n in range(5)] == [each.result() for each in job.results()]
    assert [4, 16] == [each.result() for each in job.results(indices="2,4")]
    assert ids == [each.id for each in client.groups.members(job.id)]


def test_a_member_says_why_it_has_not_begun():
    client = FakeDeployment([square]).client()
    later = datetime.now(UTC) + timedelta(hours=1)
    job = client.submit(square, array={"values": [Number(n=1)] * 5}, run_at=later)
    found = job.why(index=4)
    assert (None, job.id, 4, "waiting") == (found.id, found.group, found.index, found.state)
    assert ["member_not_begun", "run_at"] == [each.code for each in found.reasons]
    with pytest.raises(RequestError, match="5 is outside of the array"):
        client.why(job.id, index=5)


def test_commands_know_their_index_and_some_may_fail():
    def runs(job: Running) -> End:
        return End(3) if job.index == 5 else End(result=[job.index, job.value])

    client = FakeDeployment(commands=runs).client()
    once: Retry = {"max_attempts": 1}
    steps: Array = {"first": 1, "last": 9, "step": 4}
    job = client.submit(["x"], array=steps, tolerate="34 %", retry=once)
    assert "completed" == job.wait().state
    assert [1, 5, 9] == [each.index for each in job.results()]
    job = client.submit(["x"], array={"values": ["a", {"b": 1}]})
    job.wait()
    assert [[0, "a"], [1, {"b": 1}]] == [each.result() for each in job.results()]


def test_a_long_result_is_read_from_its_job():
    client = FakeDeployment(commands=lambda job: End(result=(job.index or 0) * "x")).client()
    job = client.submit(["x"], array={"first": 1000, "last": 1400, "step": 400}).wait()
    short, long = client.groups.members(job.id)
    assert (1000 * "x", None) == (short.result, short.result_size)
    assert (None, 1402) == (long.result, long.result_size)
    assert [1000 * "x", 1400 * "x"] == [each.result() for each in job.results()]


def test_values_that_are_no_params_are_named_by_index():
    client = FakeDeployment([square]).client()
    with pytest.raises(RequestError) as refused:
        client.submit("square", array={"values": [{"n": 1}, {"n": "x"}, 3]})
    assert ["array.values.1.n", "array.values.2"] == [each.field for each in refused.value.fields]
    assert [] == list(client.list())


def test_map_is_one_array():
    LOST.clear()
    deployment = FakeDeployment([square])
    client = deployment.client()
    found = list(client.map(square, [Number(n=n) for n in range(4)]))
    assert [0, 1, 4, 9] == [each.result() for each in found]
    assert [4] == [job.data.members for job in client.list()]
