"""`joblane wait` of many jobs, and `watch` of the clients: what is read, shown and exited with."""

import json
import os
import pty
import re
from collections import Counter
from typing import Any

import pytest

from joblane import NotFoundError, WaitTimeoutError
from joblane.client.cli.text.progress_bar import WIDTH, bar
from joblane.client.follow import FollowPolicy
from joblane.client.watch_calls import SINGLE_READS
from joblane.formats.ids import nth_id
from tests.support.client.command import Joblane, Spawn, wait_until
from tests.support.client.fake_api import CUT, FakeApi, problem

FIRST = "01MCC5RM002VP5C98RFS3H2QM0"
QUICK = FollowPolicy(busy_s=0.01, idle_max_s=0.01)


def fill(api: FakeApi, count: int) -> list[str]:
    ids = [nth_id(FIRST, number) for number in range(count)]
    for job_id in ids:
        api.add(job_id)
    return ids


def test_jobs_that_were_submitted_together_are_read_by_pages(api: FakeApi, client: Any) -> None:
    ids = fill(api, 300)
    for job_id in ids[:200]:
        api.jobs[job_id].end()
    requests = 0

    def before(_request: object) -> None:
        nonlocal requests
        requests += 1
        if requests == 4:
            for job_id in ids[200:]:
                api.jobs[job_id].end("dead")

    api.before = before
    found = list(client.watch(ids, policy=QUICK))
    assert 300 == sum(len(each.ended) for each in found)
    assert set(ids) == {job.id for each in found for job in each.ended}
    assert Counter({"pending": 100}) == found[0].open
    assert {"/v1/jobs"} == {request.path for request in api.requests}
    assert requests <= 8
    assert "true" == api.requests[0].query["hidden"]


def test_jobs_among_many_others_are_read_one_by_one_a_part_in_each_round(api: FakeApi, client: Any):
    ids = fill(api, 4000)[::40]
    for job_id in ids:
        api.jobs[job_id].end()
    found = list(client.watch(ids, policy=QUICK))
    assert set(ids) == {job.id for each in found for job in each.ended}
    lists = api.count("GET", "/v1/jobs")
    assert lists <= 11 * len(found)
    assert len(api.requests) - lists <= SINGLE_READS * len(found)


def test_an_outage_is_waited_out(api: FakeApi, client: Any) -> None:
    ids = fill(api, 20)
    for job_id in ids:
        api.jobs[job_id].end()
    api.faults += [CUT, problem(503, "Service Unavailable")]
    assert 20 == sum(len(each.ended) for each in client.watch(ids, policy=QUICK))


def test_nothing_is_asked_about_no_jobs(api: FakeApi, client: Any) -> None:
    assert [] == list(client.watch([]))
    assert [] == api.requests


def test_a_job_that_is_not_there_is_named(api: FakeApi, client: Any) -> None:
    with pytest.raises(NotFoundError, match="job 01K: 404"):
        list(client.watch([*fill(api, 2), "01K"]))


def test_time_is_up(api: FakeApi, client: Any) -> None:
    ids = fill(api, 9)
    api.jobs[ids[0]].end()
    late = r"8 of 9 jobs had not ended after 0.05 s: \w{26} pending, .*, \.\.\."
    with pytest.raises(WaitTimeoutError, match=late):
        list(client.watch(ids, 0.05, policy=QUICK))


def test_jobs_are_printed_in_the_order_of_the_arguments(api: FakeApi, joblane: Joblane) -> None:
    ids = fill(api, 12)
    for job_id in ids:
        api.jobs[job_id].end(reason="exit code 0")
    api.jobs[ids[3]].end("dead", exit_code=7, reason="exit code 7")
    ran = joblane("wait", *reversed(ids))
    assert (7, "") == (ran.code, ran.said)
    assert list(reversed(ids)) == [line.split()[0] for line in ran.stdout.decode().splitlines()]
    ran = joblane("wait", *ids, "--json")
    assert ids == [json.loads(line)["id"] for line in ran.stdout.splitlines()]


def test_the_same_job_twice_is_waited_for_once(api: FakeApi, joblane: Joblane) -> None:
    (job_id,) = fill(api, 1)
    api.jobs[job_id].end(reason="exit code 0")
    ran = joblane("wait", job_id, job_id)
    assert 0 == ran.code
    assert [f"{job_id} completed: exit code 0"] * 2 == ran.stdout.decode().splitlines()


def test_a_wait_has_a_timeout_in_words(api: FakeApi, joblane: Joblane) -> None:
    ids = fill(api, 2)
    ran = joblane("wait", *ids, "--timeout", "0.1s")
    assert (124, b"") == (ran.code, ran.stdout)
    assert f"joblane: 2 of 2 jobs had not ended after 0.1 s: {ids[0]} pending" in ran.said
    ran = joblane("wait", *ids, "--timeout", "soon")
    assert (2, b"") == (ran.code, ran.stdout)


def test_a_terminal_has_a_progress_bar(api: FakeApi, fork: Spawn) -> None:
    ids = fill(api, 4)
    api.jobs[ids[0]].end()
    api.jobs[ids[1]].end("dead", exit_code=None)
    main, side = pty.openpty()
    process = fork("wait", *ids, stderr=side, start_new_session=True)
    os.close(side)
    seen = b""
    while b"[############............] 2 of 4 ended: 1 completed, 1 dead, 2 pending" not in seen:
        seen += os.read(main, 4096)
    for job_id in ids[2:]:
        api.jobs[job_id].end()
    wait_until(lambda: process.poll() is not None)
    assert 70 == process.returncode
    os.close(main)


@pytest.mark.parametrize(
    ("done", "count", "full"), [(0, 10, 0), (999, 1000, 23), (1000, 1000, 24), (0, 0, 0)]
)
def test_the_bar_is_full_when_all_is_done_and_not_before(done: int, count: int, full: int) -> None:
    assert full == bar(done, count).count("#")
    assert re.fullmatch(r"\[#*\.*\]", bar(done, count))
    assert len("[]") + WIDTH == len(bar(done, count))
