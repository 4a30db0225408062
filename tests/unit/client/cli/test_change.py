"""The verbs that change jobs: what is sent, what is said, and what a refusal looks like."""

import json

import pytest

from joblane import Client, InputError, RequestError
from joblane.client.cli import exit_codes
from tests.support.client.command import Joblane
from tests.support.client.fake_api import CUT, FakeApi, ok, problem

JOB = {"id": "01J", "state": "cancelled", "reason": "because", "note": "cancelled at once"}
CONFLICT = problem(409, "Conflict", detail="a job that is completed cannot be cancelled")

VERBS = [
    (("cancel", "01J"), "/v1/jobs/01J/cancel", b"01J cancelled: cancelled at once\n"),
    (("retry", "01J"), "/v1/jobs/01J/retry", b"01J cancelled: because\n"),
    (("resubmit", "01J"), "/v1/jobs/01J/resubmit", b"01J\n"),
    (("hide", "01J"), "/v1/jobs/01J/hide", b"01J cancelled: hidden\n"),
    (("unhide", "01J"), "/v1/jobs/01J/unhide", b"01J cancelled: listed again\n"),
    (("dlq", "replay", "01J"), "/v1/dlq/01J/replay", b"01J cancelled: because\n"),
    (("dlq", "dismiss", "01J"), "/v1/dlq/01J/dismiss", b"01J cancelled: because\n"),
]

HIDE = ("hide", "unhide")


@pytest.mark.parametrize(("verb", "path", "said"), VERBS)
def test_a_move_is_sent_once_and_told(
    api: FakeApi, joblane: Joblane, verb: tuple[str, ...], path: str, said: bytes
) -> None:
    api.add("01J")
    api.answers[path] = ok(JOB, 202)
    ran = joblane(*verb)
    assert (0, said, "") == (ran.code, ran.stdout, ran.said)
    assert 1 == api.count("POST", path)
    assert JOB == json.loads(joblane(*verb, "--json").stdout)


@pytest.mark.parametrize(("verb", "path", "said"), VERBS)
def test_several_jobs_are_changed_and_a_refused_one_holds_up_none(
    api: FakeApi, joblane: Joblane, verb: tuple[str, ...], path: str, said: bytes
) -> None:
    """In the order given, each once; the exit code is that of the first refusal."""
    for name in ("01J", "02J", "03J"):
        api.add(name)
        api.answers[path.replace("01J", name)] = ok({**JOB, "id": name}, 202)
    api.answers[path.replace("01J", "02J")] = CONFLICT
    several = (*verb, "04J", "02J", "03J", "01J", *(["--yes"] if verb[0] not in HIDE else []))
    ran = joblane(*several)
    assert 66 == ran.code
    assert said + said.replace(b"01J", b"03J") == ran.stdout
    assert "joblane: 04J: 404 " in ran.said.splitlines()[0]
    refusal = "02J: 409 Conflict: a job that is completed cannot be cancelled"
    assert [f"joblane: {refusal}"] == ran.said.splitlines()[1:]
    lines = joblane(*several, "--json").stdout.splitlines()
    assert ["01J", "03J"] == [json.loads(line)["id"] for line in lines]
    assert 2 == api.count("POST", path)


@pytest.mark.parametrize(("verb", "done"), [("cancel", "cancelled"), ("retry", "retried")])
def test_a_group_among_several_jobs_is_named_in_its_line(
    api: FakeApi, joblane: Joblane, verb: str, done: str
) -> None:
    api.add("01J", members=2, target="_all")
    api.add("02J")
    page = {"examined": 2, done: 1, "refused": []}
    api.answers[f"/v1/groups/01J/{verb}"] = ok({**page, "next": None}, 202)
    api.answers[f"/v1/jobs/02J/{verb}"] = ok({**JOB, "id": "02J"}, 202)
    group, job = joblane(verb, "01J", "02J").stdout.decode().splitlines()
    assert (f"01J: {done} 1 of 2 jobs examined", "02J") == (group, job.split()[0])
    lines = joblane(verb, "01J", "02J", "--json").stdout.splitlines()
    assert {"id": "01J", **page} == json.loads(lines[0])
    assert f"{done} 1 of 2 jobs examined\n" == joblane(verb, "01J").stdout.decode()


def test_an_api_that_is_away_ends_a_command_with_several_jobs(
    api: FakeApi, joblane: Joblane
) -> None:
    for name in ("01J", "02J"):
        api.add(name)
        api.answers[f"/v1/jobs/{name}/cancel"] = problem(500, "Internal")
    ran = joblane("cancel", "01J", "02J")
    assert (exit_codes.UNAVAILABLE, b"") == (ran.code, ran.stdout)
    assert 0 == api.count("POST", "/v1/jobs/02J/cancel")


def test_several_are_deleted_and_shown(api: FakeApi, joblane: Joblane) -> None:
    for name in ("01J", "02J"):
        api.add(name)
    shown = joblane("get", "01J", "03J", "02J")
    assert 66 == shown.code
    assert ["id           01J", "id           02J"] == [
        line for line in shown.stdout.decode().splitlines() if line.startswith("id ")
    ]
    assert b"\n\nid           02J\n" in shown.stdout
    lines = joblane("get", "01J", "02J", "--json").stdout.splitlines()
    assert ["01J", "02J"] == [json.loads(line)["id"] for line in lines]
    for name in ("01J", "02J"):
        api.answers[f"/v1/jobs/{name}"] = (204, {}, b"")
    deleted = joblane("delete", "01J", "02J", "-y")
    assert (0, b"", b"") == (deleted.code, deleted.stdout, deleted.stderr)
    assert 1 == api.count("DELETE", "/v1/jobs/01J") == api.count("DELETE", "/v1/jobs/02J")


def test_one_key_is_not_for_several_jobs(api: FakeApi, joblane: Joblane) -> None:
    ran = joblane("resubmit", "01J", "02J", "--idempotency-key", "k")
    assert (2, True) == (ran.code, "--idempotency-key is for one job" in ran.said)
    assert not api.requests


@pytest.mark.parametrize(("verb", "path", "said"), VERBS)
def test_a_refused_move_says_why(
    api: FakeApi, joblane: Joblane, verb: tuple[str, ...], path: str, said: bytes
) -> None:
    api.add("01J")
    api.answers[path] = CONFLICT
    ran = joblane(*verb)
    assert (64, b"") == (ran.code, ran.stdout), said
    assert "409 Conflict: a job that is completed cannot be cancelled" in ran.said


def test_a_retry_that_does_not_fit_says_what_to_do(api: FakeApi, joblane: Joblane) -> None:
    api.add("01J")
    errors = [{"field": "params.since", "problem": "required"}]
    detail = "the present version does not take it; restart it with --same-version"
    api.answers["/v1/jobs/01J/retry"] = problem(409, "Conflict", detail=detail, errors=errors)
    ran = joblane("retry", "01J")
    expected = f"joblane: 409 Conflict: {detail}\njoblane:   params.since: required\n"
    assert (64, expected) == (ran.code, ran.said)


def test_a_move_whose_answer_is_lost_is_not_sent_again(api: FakeApi, joblane: Joblane) -> None:
    api.add("01J")
    api.more = lambda request: CUT if request.method == "POST" else None
    assert 69 == joblane("cancel", "01J").code
    assert 1 == api.count("POST", "/v1/jobs/01J/cancel")


def test_delete_says_nothing(api: FakeApi, joblane: Joblane) -> None:
    api.answers["/v1/jobs/01J"] = (204, {}, b"")
    ran = joblane("delete", "01J")
    assert (0, b"", "") == (ran.code, ran.stdout, ran.said)
    assert 1 == api.count("DELETE", "/v1/jobs/01J")


def test_work_on_many_goes_page_by_page_and_names_the_refused(api: FakeApi, joblane: Joblane):
    page = {"examined": 100, "restarted": 98, "refused": [], "next": "c1"}
    last = {
        "examined": 3,
        "restarted": 1,
        "refused": [{"id": "01J", "detail": "the job is not restartable"}],
        "next": None,
    }
    api.faults += [ok(page), ok(last)]
    ran = joblane("restart-failed", "_all", "--type", "sleep")
    assert (64, b"restarted 99 of 103 jobs examined\n") == (ran.code, ran.stdout)
    assert "joblane: 01J: the job is not restartable\n" == ran.said
    first, second = api.requests
    assert ("/v1/queues/_all/restart-failed", {"type": "sleep"}) == (first.path, first.query)
    assert {"type": "sleep", "next": "c1"} == second.query


FULL_ID = "01KAJ5RJ00V3XW8TQZ9M4C2N7D"
RESTARTS = [
    (("retry", "01J"), "/v1/jobs/01J/retry"),
    (("retry", "--state", "dead", "--yes"), "/v1/jobs/retry"),
    (("dlq", "replay", "01J"), "/v1/dlq/01J/replay"),
    (("dlq", "replay", "--since", "2h", "--yes"), "/v1/dlq/replay"),
    (("restart-failed", "_all"), "/v1/queues/_all/restart-failed"),
]


@pytest.mark.parametrize(("verb", "path"), RESTARTS)
def test_a_restart_may_stay_with_the_version(
    api: FakeApi, joblane: Joblane, verb: tuple[str, ...], path: str
) -> None:
    api.add("01J" if "01J" in verb else FULL_ID, state="dead")
    page = {"examined": 1, "retried": 1, "replayed": 1, "restarted": 1, "refused": [], "next": None}
    api.answers[path] = ok(JOB if "01J" in verb else page, 202 if "01J" in verb else 200)
    for options, body in (((), {}), (("--same-version",), {"same_version": True})):
        assert 0 == joblane(*verb, *options).code
        sent = [request for request in api.requests if request.path == path][-1]
        assert body == (sent.body or {})


def test_requeue_counts(api: FakeApi, joblane: Joblane) -> None:
    api.answers["/v1/queues/bulk/requeue"] = ok(
        {"examined": 7, "requeued": 2, "refused": [], "next": None}
    )
    assert b"requeued 2 of 7 jobs examined\n" == joblane("requeue", "bulk").stdout
    told = json.loads(joblane("requeue", "bulk", "--json").stdout)
    assert {"examined": 7, "requeued": 2, "refused": []} == told


def test_dead_letters_are_listed_as_jobs_are(api: FakeApi, joblane: Joblane) -> None:
    dead = api.add("01D", state="dead", reason="exit code 1 (attempt 3 of 3)").data
    api.answers["/v1/dlq"] = ok({"entries": [dead], "limit": 20, "next": None})
    shown = joblane("dlq", "ls").stdout.decode()
    assert "01D" in shown
    assert "dead" in shown
    assert [dead] == json.loads(joblane("dlq", "ls", "--json").stdout)["entries"]
    assert "20" == api.requests[0].query["limit"]


def test_times_go_with_a_submission(api: FakeApi, joblane: Joblane) -> None:
    times = {"run_at": "2030-01-01T00:00:00Z", "deadline": "2030-01-02T00:00:00Z"}
    options = [f"--{name.replace('_', '-')}={value}" for name, value in times.items()]
    assert 0 == joblane("submit", *options, "--", "true").code
    assert times == {name: api.requests[-1].body[name] for name in times}


def test_the_sdk_raises_what_was_refused(api: FakeApi) -> None:
    api.answers["/v1/jobs/01J/cancel"] = CONFLICT
    with Client(api.url) as joblane, pytest.raises(RequestError) as refused:
        joblane.cancel("01J")
    assert 409 == refused.value.status


def test_a_submission_with_a_key_is_sent_again_under_it(api: FakeApi, joblane: Joblane) -> None:
    api.faults += [CUT, problem(503, "Service Unavailable")]
    ran = joblane("submit", "--idempotency-key", "k-1", "--", "true")
    assert 0 == ran.code, ran.said
    sent = [request for request in api.requests if request.method == "POST"]
    assert ["k-1"] * 3 == [request.headers["Idempotency-Key"] for request in sent]
    assert 1 == len(api.jobs)


def test_a_batch_answers_each_entry(api: FakeApi) -> None:
    entries = [{"status": 202, "job": JOB}, {"status": 400, "detail": "x", "errors": []}]
    api.answers["/v1/jobs/batch"] = ok({"entries": entries})
    with Client(api.url, "secret") as client:
        accepted, refused = client.submit_batch([{"command": ["true"]}, {}], idempotency_key="k")
    assert entries == [accepted.data.model_dump(), refused.data.model_dump()]
    assert accepted.job is not None
    assert (JOB["id"], None) == (accepted.job.id, accepted.error)
    assert isinstance(refused.error, RequestError)
    assert (None, 400) == (refused.job, refused.error.status)
    assert {"jobs": [{"command": ["true"]}, {}]} == api.requests[-1].body
    assert "k" == api.requests[-1].headers["Idempotency-Key"]


@pytest.mark.parametrize("key", ["", " ", "a\nb", "\u00e9"])
def test_a_key_that_no_header_can_hold_is_refused_here(api: FakeApi, key: str) -> None:
    with Client(api.url, "secret") as client, pytest.raises(InputError, match="ASCII"):
        client.submit(["true"], idempotency_key=key)
    assert [] == api.requests


@pytest.mark.parametrize(("verb", "path", "said"), VERBS)
def test_a_reason_goes_along(
    api: FakeApi, joblane: Joblane, verb: tuple[str, ...], path: str, said: bytes
) -> None:
    api.add("01J")
    api.answers[path] = ok(JOB, 202)
    assert said == joblane(*verb, "--reason", "wrong input").stdout
    (request,) = [request for request in api.requests if request.path == path]
    assert {"reason": "wrong input"} == request.body


def test_a_reason_goes_along_with_every_page_of_work(api: FakeApi, joblane: Joblane) -> None:
    page = {"examined": 1, "requeued": 1, "refused": [], "next": None}
    api.answers["/v1/queues/default/requeue"] = ok(page)
    assert 0 == joblane("requeue", "default", "--reason", "lost messages").code
    assert {"reason": "lost messages"} == api.requests[-1].body
    api.answers["/v1/jobs/01J"] = (204, {}, b"")
    assert 0 == joblane("delete", "01J", "--reason", "a mistake").code
    assert ("DELETE", {"reason": "a mistake"}) == (api.requests[-1].method, api.requests[-1].body)


ENTRY = {
    "id": "01J",
    "at": "2026-11-21T02:07:09.005Z",
    "action": "cancel",
    "by": {"kind": "person", "subject": "5e1f", "name": "ada"},
    "target": {"job_id": "01K"},
    "reason": "wrong input",
    "asked": None,
    "request_id": "r-1",
    "refused": {"status": 409, "detail": "the job has ended"},
}


def test_the_trail_is_a_table_for_people_and_json_for_programs(api: FakeApi, joblane: Joblane):
    page = {"entries": [ENTRY], "limit": 20, "next": "c3"}
    api.answers["/v1/audit"] = ok(page)
    ran = joblane("audit", "--action", "cancel", "--since", "2026-11-21T00:00:00Z")
    assert {"limit": "20", "action": "cancel", "since": "2026-11-21T00:00:00Z"} == (
        api.requests[-1].query
    )
    for words in (b"cancel", b"01K", b"ada", b"wrong input", b"409 the job has ended"):
        assert words in ran.stdout
    assert "--next c3" in ran.said
    assert page == json.loads(joblane("audit", "--json").stdout)
    api.answers["/v1/jobs/01K/audit"] = ok({**page, "entries": [], "next": None})
    assert b"no entries" in joblane("audit", "01K").stdout


@pytest.mark.parametrize("group", ["dlq", "types", "keys"])
def test_a_group_of_commands_alone_shows_its_help_on_lines(joblane: Joblane, group: str):
    ran = joblane(group)
    assert (exit_codes.USAGE, b"") == (ran.code, ran.stdout)
    assert ran.said.startswith(f"Usage: joblane {group} [OPTIONS] COMMAND")
    assert "\nCommands:\n  " in ran.said
    assert "\\n" not in ran.said
