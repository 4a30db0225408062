"""The SDK: `Client` and `AsyncClient` do the same; errors are one tree."""

import base64
import copy
import inspect
import json
import pickle
import re
import threading
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import joblane
from joblane import (
    AsyncClient,
    AsyncJobRef,
    Client,
    ConfigError,
    FollowError,
    FollowPolicy,
    InputError,
    JobRef,
    NotFoundError,
    RequestError,
    ThrottledError,
    UnreachableError,
    WaitTimeoutError,
)
from joblane.client import errors
from joblane.client.answers import LogEntry, LogReader
from joblane.client.calls import Item, Request, Sleep
from joblane.client.connection import Connection
from joblane.client.credentials import StaticToken
from joblane.client.files.models import Outputs
from joblane.client.models import Job
from tests.support.client import fake_api
from tests.support.client.clients import Connect
from tests.support.client.fake_api import FakeApi, FakeJob, gateway, problem
from tests.support.tls import self_signed


@pytest.mark.parametrize("follow", [False, True])
def test_a_character_that_records_cut_is_whole(
    api: FakeApi, connect: Connect, *, follow: bool
) -> None:
    """A record ends where the job's write or a buffer did, in each stream on its own."""
    euro = "€".encode()
    job = api.add()
    job.say(b"a" + euro[:2])
    job.say(b"b" + euro[:1], "stderr")
    job.say(euro[2:] + b"\xff")
    job.say(euro[1:], "stderr")
    job.say(euro[:2])
    job.say("new", attempt=2)
    job.end()
    with connect(api.url) as client:
        records = list(client.logs("01J", follow=follow))
    assert ["a", "b", "€\ufffd", "€", "", "new"] == [record.text for record in records]
    assert b"a" + euro + b"\xff" + euro[:2] + b"new" == b"".join(
        record.data for record in records if record.stream == "stdout"
    )


@given(text=st.text(), ends=st.lists(st.integers(0, 3), max_size=30))
def test_text_is_the_same_however_records_cut_it(text: str, ends: list[int]) -> None:
    data = text.encode()
    entries: list[LogEntry] = []
    for size in (*ends, len(data)):
        entries.append({"base64": base64.b64encode(data[:size]).decode()})
        data = data[size:]
    assert text == "".join(record.text for record in LogReader().read(entries))


def test_five_lines(api: FakeApi, connect: Connect) -> None:
    def script(job: FakeJob) -> None:
        job.say("hello\n")
        job.say(b"\xff")
        job.end("dead", exit_code=3, reason="exit code 3")

    api.on_submit = script
    with connect(api.url, "secret") as client:
        job = client.submit(["cmd"], timeout_s=5, env={"A": "b"}, labels={})
        output = [(record.text, record.data) for record in job.logs(follow=True)]
        ended = job.wait(timeout_s=5)
    assert output == [("hello\n", b"hello\n"), ("\ufffd", b"\xff")]
    assert (ended.state, ended.exit_code, ended.reason) == ("dead", 3, "exit code 3")
    assert ended.data == job.data
    assert api.requests[0].headers["Authorization"] == "Bearer secret"
    assert api.requests[0].body == {
        "command": ["cmd"],
        "timeout_s": 5,
        "env": {"A": "b"},
        "labels": {},
    }


def test_from_env(api: FakeApi, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JOBLANE_URL", raising=False)
    with pytest.raises(ConfigError, match="JOBLANE_URL is not set"):
        Client.from_env()
    monkeypatch.setenv("JOBLANE_URL", api.url + "/")
    with Client.from_env() as client:
        assert client.url == api.url


def test_a_stage_in_the_url_is_kept(api: FakeApi, connect: Connect) -> None:
    api.answers["/prod/v1/health"] = (200, {}, b'{"status": "ok"}')
    with connect(f"{api.url}/prod/") as client:
        assert client.health().status == "ok"


def test_list_fetches_pages_as_they_are_needed(api: FakeApi, client: Any) -> None:
    for number in range(150):
        api.add(f"{number:03}")
    jobs = client.list()
    assert next(jobs).id == "149"
    assert len(api.requests) == 1
    assert len(list(jobs)) == 149
    assert [job.id for job in client.list(2)] == ["149", "148"]


def test_list_never_yields_more_than_asked(api: FakeApi, client: Any) -> None:
    """Whatever the API thinks of the limit."""
    jobs = [{"id": str(number), "state": "pending"} for number in range(3)]
    api.answers["/v1/jobs"] = (200, {}, json.dumps({"entries": jobs, "next": "x"}).encode())
    assert [job.id for job in client.list(2)] == ["0", "1"]
    assert [job.id for job in client.list(0)] == []


def test_logs_end_with_what_is_there_even_if_the_cursor_moves(api: FakeApi, client: Any) -> None:
    def before(_request: fake_api.Request) -> None:
        page = {"entries": [], "next": str(len(api.requests)), "complete": False}
        api.faults.append((200, {}, json.dumps(page).encode()))

    api.before = before
    assert list(client.logs("01J")) == []
    assert len(api.requests) == 1


def test_logs_go_on_after_a_page_without_records_if_there_is_more(
    api: FakeApi, client: Any
) -> None:
    """Of a job whose first starts wrote nothing."""
    said = {"epoch": 9, "attempt": 1, "seq": 1, "stream": "stdout", "text": "x"}
    pages: list[dict[str, Any]] = [
        {"entries": [], "next": "a", "more": True, "complete": False},
        {"entries": [said], "next": "b", "more": False, "complete": False},
    ]
    api.faults += [(200, {}, json.dumps(page).encode()) for page in pages]
    assert [(9, 1, 1)] == [(r.epoch, r.attempt, r.seq) for r in client.logs("01J")]


def test_following_waits_as_long_as_a_throttling_api_asks(api: FakeApi) -> None:
    api.add().end()
    api.faults.append((429, {"Retry-After": "7"}, b"{}"))
    connection = Connection(api.url, StaticToken(None))
    client = Client(api.url)
    call = Client.follow(client, "01J")
    steps = [next(call)]
    with client, closing(connection), suppress(StopIteration):
        while True:
            try:
                answer = connection.send(steps[-1]) if isinstance(steps[-1], Request) else None
            except ThrottledError as error:
                steps.append(call.throw(error))
            else:
                steps.append(call.send(answer))
    assert [Request, Sleep, Request, Item] == [type(step) for step in steps]
    assert steps[1] == Sleep(7)


def test_wait_returns_when_the_job_ends_and_survives_an_outage(api: FakeApi, client: Any) -> None:
    job = api.add()
    api.faults += [gateway(503, "x")] * 3
    timer = threading.Timer(0.5, job.end)
    timer.start()
    assert client.get("01J").wait().ended
    timer.join()


def test_wait_has_an_end(api: FakeApi, client: Any) -> None:
    api.add()
    with pytest.raises(WaitTimeoutError, match="is pending after"):
        client.wait("01J", timeout_s=0.2)


def test_wait_has_an_end_also_when_the_api_is_away(api: FakeApi, client: Any) -> None:
    job = api.add()
    waiting = client.get("01J")
    api.down()
    with pytest.raises(FollowError):  # without the time limit it would try for 300 s
        waiting.wait(timeout_s=0.3)
    assert not job.complete


def test_following_an_unknown_job_ends_at_once(client: Any) -> None:
    with pytest.raises(NotFoundError):
        list(client.logs("01J", follow=True, policy=FollowPolicy(newborn_s=0)))


def test_a_refused_field_is_named(api: FakeApi, client: Any) -> None:
    api.faults.append(
        problem(400, "Bad Request", detail="x", errors=[{"field": "queue", "problem": "unknown"}])
    )
    with pytest.raises(RequestError) as caught:
        client.submit(["x"], queue="y")
    assert caught.value.status == 400
    assert caught.value.fields == (errors.FieldProblem("queue", "unknown"),)
    assert not caught.value.retryable


@pytest.mark.parametrize("command", ["echo hi", [b"x"], [object()]])
def test_a_command_that_cannot_be_sent_is_refused_here(api: FakeApi, client: Any, command: object):
    with pytest.raises(InputError):
        client.submit(command)
    assert api.requests == []


@pytest.mark.parametrize("job_id", [None, 5, b"01J", "", "01J/logs"])
def test_what_is_no_id_is_refused_here(api: FakeApi, client: Any, job_id: object):
    for call in (client.get, client.wait, client.cancel, client.why):
        with pytest.raises(InputError, match=re.escape(f"{job_id!r} is not the id of a job")):
            call(job_id)
    assert api.requests == []


@pytest.mark.parametrize("jobs", [{"command": ["true"]}, [["true"]], "true", None, 5])
def test_what_is_no_list_of_jobs_is_refused_here(api: FakeApi, client: Any, jobs: object):
    with pytest.raises(InputError, match="jobs must be a list of mappings"):
        client.submit_batch(jobs)
    assert api.requests == []


def test_proxies_are_for_others_not_for_loopback(api: FakeApi, monkeypatch: pytest.MonkeyPatch):
    for name in ("http_proxy", "https_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    api.answers["/v1/health"] = (200, {}, b'{"status": "ok"}')
    with Client(api.url) as client:
        assert "ok" == client.health().status
    with Client("https://joblane.invalid") as client:
        assert "127.0.0.1:9" not in client.url
    monkeypatch.setenv("https_proxy", "nonsense://x")
    with pytest.raises(ConfigError, match="proxy"):
        Client("https://joblane.invalid")


def test_a_certificate_that_is_not_trusted_is_final(api: FakeApi, connect: Connect, tmp_path: Path):
    """No retry helps; the message says whose certificate it is."""
    api.speak_tls(self_signed(tmp_path))
    with connect(api.url) as client, pytest.raises(ConfigError, match=r"not trusted: self-signed"):
        client.health()
    assert len(api.requests) == 0


def test_https_where_http_is_spoken_is_unreachable(api: FakeApi, connect: Connect) -> None:
    url = api.url.replace("http:", "https:")
    with connect(url) as client, pytest.raises(UnreachableError, match="cannot reach the API at"):
        client.health()


def test_the_picture_of_the_errors_is_true() -> None:
    """The tree at the head of client.errors: every class, its parent, what is retryable."""
    drawn = re.findall(r"^ {4}([│ ├└─]*)(\w+Error)( +\*)?", errors.__doc__, re.MULTILINE)
    classes = {name: kind for name, kind in vars(errors).items() if name.endswith("Error")}
    assert {name for _, name, _ in drawn} == set(classes)
    parents: list[str] = []
    for rails, name, star in drawn:
        depth = len(rails) // 4
        if depth:
            assert classes[name].__bases__[0].__name__ == parents[depth - 1]
        parents[depth:] = [name]
        assert classes[name].retryable == bool(star)


def test_every_error_comes_whole_out_of_another_process() -> None:
    """Process pools send errors pickled; one that cannot be read breaks the pool."""
    job = Job({"id": "01J", "state": "dead"})
    made: dict[type[errors.JoblaneError], dict[str, Any]] = {
        errors.JobFailedError: {"job": job},
        errors.UnreachableError: {"sent": False},
    }
    kinds = [kind for name, kind in vars(errors).items() if name.endswith("Error")]
    for kind in kinds:
        if kind is errors.DownloadError:
            error = kind(Outputs((), failed=[("a", "cannot write a")]))
        elif issubclass(kind, errors.ApiError):
            fields = (errors.FieldProblem("queue", "unknown"),)
            error = kind("409 Conflict", status=409, fields=fields, request_id="r")
        else:
            error = kind("it failed", **made.get(kind, {}))
        for same in (pickle.loads(pickle.dumps(error)), copy.copy(error)):  # noqa: S301 - ours
            assert (kind, str(error), vars(error)) == (type(same), str(same), vars(same))


def test_what_the_package_promises_is_there() -> None:
    assert all(getattr(joblane, name) for name in joblane.__all__)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        joblane.nothing  # noqa: B018


def methods(owner: type) -> dict[str, list[inspect.Parameter]]:
    """Public methods of a class and their parameters."""
    found = inspect.getmembers(owner, inspect.isroutine)
    return {
        name: list(inspect.signature(member).parameters.values())
        for name, member in found
        if not name.startswith("_")
    }


def test_both_clients_have_the_same_methods_with_the_same_parameters() -> None:
    assert methods(Client) == methods(AsyncClient)
    assert methods(JobRef) == methods(AsyncJobRef)
