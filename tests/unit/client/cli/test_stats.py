"""`joblane stats`: what a running job uses, and what is said while nothing is known."""

import json

import pytest

from tests.support.client.command import Joblane
from tests.support.client.fake_api import FakeApi, ok, problem

JOB = "01KAJ5RJ00V3XW8TQZ9M4C2N7D"
PATH = f"/v1/jobs/{JOB}"
RUNNING = {
    "id": JOB,
    "state": "active",
    "agent": "web-1",
    "limits": {"memory_mb": 512, "cpus": None},
    "stats": {"cpus": 0.93, "memory_mb": 411, "at": "2026-11-21T03:02:32.416Z"},
    "usage": None,
    "result": "left out",
}
ENDED = {"state": "completed", "stats": None, "usage": {"cpu_s": 2.5}}


def test_cpu_and_memory_of_a_running_job_are_shown(api: FakeApi, joblane: Joblane):
    api.answers[PATH] = ok(RUNNING)
    said = joblane("stats", JOB).stdout.decode()
    assert ["0.93", "411 of 512 MiB"] == [
        line.split(maxsplit=1)[1]
        for line in said.splitlines()
        if line.startswith(("cpus", "memory"))
    ]
    api.answers[PATH] = ok(RUNNING | {"limits": {"memory_mb": 64, "cpus": 2}})
    assert "0.93 of 2" in joblane("stats", JOB).stdout.decode()
    shown = json.loads(joblane("stats", JOB, "--json").stdout)
    assert (RUNNING["stats"], {"result"}) == (shown["stats"], set(RUNNING) - set(shown))


@pytest.mark.parametrize(
    ("job", "said"),
    [
        ({"stats": None}, "agent web-1 has not said it yet"),
        (ENDED, "(last attempt)"),
        (ENDED | {"usage": None}, "no attempt has run"),
    ],
)
def test_a_job_without_figures_says_why(
    api: FakeApi, joblane: Joblane, job: dict[str, object], said: str
):
    api.answers[PATH] = ok(RUNNING | job)
    assert said in joblane("stats", JOB).stdout.decode()


def test_a_job_that_does_not_exist_is_an_error(api: FakeApi, joblane: Joblane):
    api.answers[PATH] = problem(404, "there is no such job")
    ran = joblane("stats", JOB)
    assert 0 != ran.code
    assert "there is no such job" in ran.said


def test_a_group_has_no_usage_of_its_own(api: FakeApi, joblane: Joblane) -> None:
    api.add("01J", members=2, target="_all")
    ran = joblane("stats", "01J")
    assert (64, b"") == (ran.code, ran.stdout)
    assert "01J is a group, whose jobs have usage of their own; joblane get 01J" in ran.said
