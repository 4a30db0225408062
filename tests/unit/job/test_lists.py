"""Lists of jobs: filters, cursors that survive writes, and a price that no filter can raise."""

from collections.abc import Iterator
from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as st
from ulid import ULID

from functions.submission.handler import Settings, build
from joblane.formats.ids import before_id, first_id
from joblane.formats.times import rfc3339
from joblane.job.head import make_head
from joblane.job.moves import AttemptFacts
from joblane.service.job.search import EXAMINED_MAX
from joblane.state.lifecycle import Outcome, State
from joblane.state.timeline import Step
from tests.support.aws import Cloud, configure
from tests.support.jobs import named, submission
from tests.support.meter import Meter
from tests.support.requests import Api

BEGAN_S = 1_800_000_000

IN_TRAIL = 2
"""Write units of an action's record and of its entry in the index by job."""


@pytest.fixture(name="clock")
def _clock() -> Iterator[float]:
    """A second passes with every look at it."""
    return map(float, count(BEGAN_S))


@pytest.fixture(name="api")
def _api(aws: Cloud, meter: Meter, clock: Iterator[float]) -> Api:
    return Api(build(configure(Settings), meter.clients_of(aws), lambda: next(clock)))


def submit(api: Api, **fields: object) -> str:
    status, job = api("POST", "/v1/jobs", {"command": ["true"], **fields})
    assert 202 == status
    return str(job["id"])


def put(aws: Cloud, number: int, **fields: object) -> str:
    """A job of second `number`, straight into the table."""
    job_id = str(ULID.from_timestamp((BEGAN_S + number) * 1000))
    aws.jobs.put_new(make_head(job_id, "acme", submission(**fields), (BEGAN_S + number) * 1000))
    return job_id


def end(aws: Cloud, job_id: str, state: State) -> None:
    head = aws.jobs.claim(named(job_id), "i-1", BEGAN_S * 1000)
    outcome = Outcome.SUCCEEDED if state is State.COMPLETED else Outcome.FAILED
    aws.jobs.settle(head, Step(state, BEGAN_S * 1000, 1, "ended"), AttemptFacts(outcome))


def list_all(api: Api, **query: str) -> list[str]:
    """Every page of a list."""
    found: list[str] = []
    more: dict[str, str] = {}
    while True:
        status, page = api("GET", "/v1/jobs", query={"limit": "3", **query, **more})
        assert 200 == status, page
        assert len(page["entries"]) <= 3
        found += [job["id"] for job in page["entries"]]
        if page["next"] is None:
            return found
        more = {"next": page["next"]}


def list_refused(api: Api, **query: str) -> list[tuple[str, str]]:
    status, problem = api("GET", "/v1/jobs", query=query)
    assert 400 == status, problem
    return [(error["field"], error["problem"]) for error in problem["errors"]]


def test_each_filter_lets_through_what_it_names_and_all_must_hold(aws: Cloud, api: Api):
    plain = submit(api)
    named = submit(api, name="nightly: März")
    typed = submit(api, type="sleep", params={"ms": 0}, command=[])
    bulk = submit(api, queue="bulk", labels={"team": "web"})
    done = submit(api, labels={"team": "web"})
    end(aws, done, State.COMPLETED)
    assert [done, bulk, typed, named, plain] == list_all(api)
    assert [done] == list_all(api, state="completed")
    assert [typed] == list_all(api, type="sleep")
    assert [bulk] == list_all(api, queue="bulk")
    assert [done, bulk] == list_all(api, label="team=web")
    assert [named] == list_all(api, name="nightly: März")
    assert [] == list_all(api, name="nightly")
    assert [bulk] == list_all(api, label="team=web", state="pending")
    assert [] == list_all(api, queue="bulk", state="completed")


def test_a_repeated_state_means_one_of_them_and_a_repeated_label_all_of_them(aws: Cloud, api: Api):
    both = submit(api, labels={"team": "web", "tier": "gold"})
    team = submit(api, labels={"team": "web"})
    tier = submit(api, labels={"tier": "gold"})
    end(aws, both, State.DEAD)
    end(aws, team, State.FAILED)
    assert [team, both] == list_all(api, state="dead,failed")
    assert [tier, both] == list_all(api, state="pending,dead")
    assert [both] == list_all(api, label="team=web,tier=gold")
    assert [] == list_all(api, label="team=web,team=app")
    assert [] == list_all(api, label="team=web,tier=gold", state="pending,failed")


def test_since_takes_in_its_moment_and_until_leaves_it_out(aws: Cloud, api: Api):
    ids = [put(aws, second) for second in range(8)]

    def at(second: int) -> str:
        return rfc3339((BEGAN_S + second) * 1000)

    assert ids[:1:-1] == list_all(api, since=at(2))
    assert ids[4::-1] == list_all(api, until=at(5))
    assert ids[4:1:-1] == list_all(api, since=at(2), until=at(5))
    assert [] == list_all(api, since=at(5), until=at(5))
    assert [] == list_all(api, until="0001-01-01T00:00:00Z")
    assert [] == list_all(api, since="9999-12-31T23:59:59Z")


@pytest.mark.parametrize(
    ("query", "problem"),
    [
        ({"state": "sleeping"}, "'dead'"),
        ({"state": "dead,sleeping"}, "'dead'"),
        ({"state": ""}, "'dead'"),
        ({"queue": "No Where"}, "pattern"),
        ({"since": "yesterday"}, "2026-11-21T02:07:09Z"),
        ({"until": "2026-02-30T00:00:00Z"}, "exists"),
        ({"label": "team"}, "pattern"),
        ({"label": "team=web,"}, "pattern"),
        ({"hidden": "yes"}, "true or false"),
        ({"type": ""}, "pattern"),
        ({"name": "two\nlines"}, "one line"),
    ],
)
def test_an_invalid_filter_is_named_with_what_is_allowed(
    api: Api, query: dict[str, str], problem: str
):
    ((field, said),) = list_refused(api, **query)
    assert [field.partition(".")[0]] == list(query)
    assert problem in said


def test_states_that_need_attention_come_from_their_index(aws: Cloud, api: Api, meter: Meter):
    dead = [put(aws, second) for second in range(5)]
    for job_id in dead:
        end(aws, job_id, State.DEAD)
    for second in range(5, 150):
        put(aws, second)
    meter.calls.clear()
    assert dead[::-1] == list_all(api, state="dead")
    assert {"dynamodb.Query": 2, "dynamodb.BatchGetItem": 2} == meter.calls


def test_a_filter_that_matches_rarely_costs_a_bounded_page_and_still_finds_all(
    aws: Cloud, api: Api, meter: Meter
):
    oldest = put(aws, 0, labels={"team": "web"})
    for second in range(1, EXAMINED_MAX + 10):
        put(aws, second)
    meter.calls.clear()
    status, page = api("GET", "/v1/jobs", query={"label": "team=web"})
    assert (200, []) == (status, page["entries"])
    assert {"dynamodb.Query": 5, "dynamodb.BatchGetItem": 5} == meter.calls
    query = {"label": "team=web", "next": page["next"]}
    assert [oldest] == [job["id"] for job in api("GET", "/v1/jobs", query=query)[1]["entries"]]


def test_a_cursor_goes_on_from_its_place_whatever_is_written_meanwhile(aws: Cloud, api: Api):
    before = [put(aws, second) for second in range(6)]
    page = api("GET", "/v1/jobs", query={"limit": "3"})[1]
    assert before[:2:-1] == [job["id"] for job in page["entries"]]
    put(aws, 100)
    assert 204 == api.raw("DELETE", f"/v1/jobs/{before[3]}")["statusCode"]  # where it goes on from
    end(aws, before[1], State.COMPLETED)
    rest = api("GET", "/v1/jobs", query={"limit": "3", "next": page["next"]})[1]
    assert before[2::-1] == [job["id"] for job in rest["entries"]]


def test_a_cursor_is_good_for_its_own_filters_only(aws: Cloud, api: Api):
    for second in range(4):
        put(aws, second)
    after = api("GET", "/v1/jobs", query={"limit": "1", "state": "pending"})[1]["next"]
    ((field, said),) = list_refused(api, next=after, state="active")
    assert "next" == field
    assert "other filters" in said
    assert 400 == api("GET", "/v1/jobs", query={"next": after})[0]
    query = {"next": after, "state": "pending", "limit": "2"}
    assert 200 == api("GET", "/v1/jobs", query=query)[0]


def test_a_page_costs_the_same_however_many_jobs_there_are(aws: Cloud, api: Api, meter: Meter):
    def cost() -> tuple[dict[str, int], int]:
        meter.calls.clear()
        meter.bytes_read = 0
        page = api("GET", "/v1/jobs", query={"limit": "10"})[1]
        assert 10 == len(page["entries"])
        return dict(meter.calls), meter.bytes_read

    for second in range(100, 120):
        put(aws, second)
    few = cost()
    for second in range(120, 320):
        put(aws, second)
    assert few == cost()
    # keys, heads, and the settings of the queues in which they wait
    assert {"dynamodb.Query": 1, "dynamodb.BatchGetItem": 2} == few[0]


def test_a_hidden_job_is_left_out_of_lists_until_it_is_shown_or_started_again(
    aws: Cloud, api: Api, meter: Meter
):
    kept, away = submit(api), submit(api)
    end(aws, away, State.FAILED)
    before = meter.write_units
    status, job = api("POST", f"/v1/jobs/{away}/hide")
    assert (200, True) == (status, job["hidden"])
    assert 1 + IN_TRAIL == meter.write_units - before
    assert [kept] == list_all(api)
    assert [] == list_all(api, state="failed")
    assert [away, kept] == list_all(api, hidden="true")
    assert api("GET", f"/v1/jobs/{away}")[1]["hidden"] is True
    assert 200 == api("POST", f"/v1/jobs/{away}/hide")[0]  # once more changes nothing
    assert 1 + 2 * IN_TRAIL == meter.write_units - before
    api("POST", f"/v1/jobs/{away}/unhide")
    assert [away, kept] == list_all(api)
    api("POST", f"/v1/jobs/{away}/hide")
    assert 202 == api("POST", f"/v1/jobs/{away}/retry")[0]
    assert [away, kept] == list_all(api)


def test_a_job_that_has_not_ended_cannot_be_hidden(api: Api):
    job_id = submit(api)
    status, problem = api("POST", f"/v1/jobs/{job_id}/hide")
    assert 409 == status
    assert "pending" in problem["detail"]
    assert [job_id] == list_all(api)


def test_hiding_loses_against_a_job_that_was_started_again(aws: Cloud, api: Api):
    job_id = submit(api)
    end(aws, job_id, State.FAILED)
    seen = aws.job(job_id)
    api("POST", f"/v1/jobs/{job_id}/retry")
    with pytest.raises(Exception, match="the job is pending"):
        aws.jobs.set_hidden(seen, hidden=True)


@pytest.mark.parametrize("limit", ["1", "2", "3"])
def test_pages_of_every_size_hold_the_same_jobs(aws: Cloud, api: Api, limit: str):
    ids = [put(aws, second, labels={"odd": str(second % 2)}) for second in range(12)]
    assert ids[::-2] == list_all(api, label="odd=1", limit=limit)


IDS = st.integers(0, (1 << 128) - 1)


@given(IDS, st.integers(-(1 << 50), 1 << 50))
def test_ids_are_places_in_time(number: int, at_ms: int):
    job_id = str(ULID.from_int(number))
    below = before_id(job_id)
    assert (number == 0) == (below is None)
    if below is not None:
        assert number - 1 == int(ULID.from_str(below))
        assert below < job_id
    assert first_id(at_ms) <= first_id(at_ms + 1)
