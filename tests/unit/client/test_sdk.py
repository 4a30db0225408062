"""The SDK: a job in five lines, errors as one tree."""

import json
import re
import threading
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

import client
from client import (
    Client,
    ConfigError,
    FollowError,
    InputError,
    NotFoundError,
    RequestError,
    UnreachableError,
    WaitTimeoutError,
    errors,
)
from client.follow import Edge, Policy
from tests.unit.client.fake_api import FakeApi, FakeJob, Request, gateway, problem


def test_five_lines(api: FakeApi) -> None:
    def script(job: FakeJob) -> None:
        job.say("hello\n")
        job.say(b"\xff")
        job.end("dead", exit_code=3, reason="exit 3")

    api.on_submit = script
    with Client(api.url, "secret") as joblane:
        job = joblane.submit(["cmd"], timeout_s=5, env={"A": "b"}, labels={})
        output = [(record.text, record.data) for record in job.logs(follow=True)]
        ended = job.wait(timeout_s=5)
    assert output == [("hello\n", b"hello\n"), ("\ufffd", b"\xff")]
    assert (ended.state, ended.exit_code, ended.reason) == ("dead", 3, "exit 3")
    assert ended is job
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
    with Client.from_env() as joblane:
        assert joblane.url == api.url


def test_a_stage_in_the_url_is_kept(api: FakeApi) -> None:
    api.answers["/prod/v1/health"] = (200, {}, b'{"status": "ok"}')
    with Client(f"{api.url}/prod/") as joblane:
        assert joblane.health() == {"status": "ok"}


def test_list_fetches_pages_as_they_are_needed(api: FakeApi) -> None:
    for number in range(150):
        api.add(f"{number:03}")
    with Client(api.url) as joblane:
        jobs = joblane.list()
        assert next(jobs).id == "149"
        assert len(api.requests) == 1
        assert len(list(jobs)) == 149
        assert [job.id for job in joblane.list(2)] == ["149", "148"]


def test_list_never_yields_more_than_asked(api: FakeApi) -> None:
    """Whatever the API thinks of the limit."""
    jobs = [{"id": str(number), "state": "pending"} for number in range(3)]
    api.answers["/v1/jobs"] = (200, {}, json.dumps({"entries": jobs, "next": "x"}).encode())
    with Client(api.url) as joblane:
        assert [job.id for job in joblane.list(2)] == ["0", "1"]
        assert [job.id for job in joblane.list(0)] == []


def test_logs_end_with_what_is_there_even_if_the_cursor_moves(api: FakeApi) -> None:
    def before(_request: Request) -> None:
        page = {"entries": [], "next": str(len(api.requests)), "complete": False}
        api.faults.append((200, {}, json.dumps(page).encode()))

    api.before = before
    with Client(api.url) as joblane:
        assert list(joblane.logs("01J")) == []
    assert len(api.requests) == 1


def test_following_waits_as_long_as_a_throttling_api_asks(api: FakeApi) -> None:
    job = api.add()
    job.end()
    api.faults.append((429, {"Retry-After": "7"}, b"{}"))
    slept: list[float] = []
    with Client(api.url) as joblane:
        assert len(list(joblane.follow("01J", edge=Edge(sleep=slept.append)))) == 1
    assert slept == [7]


def test_wait_returns_when_the_job_ends_and_survives_an_outage(api: FakeApi) -> None:
    job = api.add()
    api.faults += [gateway(503, "x")] * 3
    timer = threading.Timer(0.5, job.end)
    timer.start()
    with Client(api.url) as joblane:
        assert joblane.get("01J").wait().ended
    timer.join()


def test_wait_has_an_end(api: FakeApi) -> None:
    api.add()
    with (
        Client(api.url) as joblane,
        pytest.raises(WaitTimeoutError, match="is pending after"),
    ):
        joblane.wait("01J", timeout_s=0.2)


def test_wait_has_an_end_also_when_the_api_is_away(api: FakeApi) -> None:
    job = api.add()
    with Client(api.url) as joblane:
        waiting = joblane.get("01J")
        api.down()
        began = time.monotonic()
        with pytest.raises(FollowError):
            waiting.wait(timeout_s=0.3)
    assert time.monotonic() - began < 5
    assert not job.complete


def test_following_an_unknown_job_ends_at_once(api: FakeApi) -> None:
    with Client(api.url) as joblane, pytest.raises(NotFoundError):
        list(joblane.logs("01J", follow=True, policy=Policy(newborn_s=0)))


def test_a_refused_field_is_named(api: FakeApi) -> None:
    api.faults.append(
        problem(400, "Bad Request", detail="x", errors=[{"field": "queue", "problem": "unknown"}])
    )
    with Client(api.url) as joblane, pytest.raises(RequestError) as caught:
        joblane.submit(["x"], queue="y")
    assert caught.value.status == 400
    assert caught.value.fields == (errors.FieldProblem("queue", "unknown"),)
    assert not caught.value.retryable


@pytest.mark.parametrize("command", ["echo hi", [b"x"], [object()]])
def test_a_command_that_cannot_be_sent_is_refused_here(api: FakeApi, command: object) -> None:
    with Client(api.url) as joblane, pytest.raises(InputError):
        joblane.submit(command)  # type: ignore[arg-type]
    assert api.requests == []


def test_proxies_are_for_others_not_for_loopback(
    api: FakeApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    api.answers["/v1/health"] = (200, {}, b'{"status": "ok"}')
    with Client(api.url) as joblane:
        assert joblane.health()
    with Client("http://joblane.invalid") as joblane:
        assert "127.0.0.1:9" not in joblane.url
    monkeypatch.setenv("http_proxy", "nonsense://x")
    with pytest.raises(ConfigError, match="proxy"):
        Client("http://joblane.invalid")


def test_a_certificate_that_is_not_trusted_is_final(api: FakeApi, tmp_path: Path) -> None:
    """No retry helps; the message says whose certificate it is."""
    api.speak_tls(self_signed(tmp_path))
    with Client(api.url) as joblane, pytest.raises(ConfigError, match=r"not trusted: self-signed"):
        joblane.health()
    assert len(api.requests) == 0


def test_https_where_http_is_spoken_is_unreachable(api: FakeApi) -> None:
    url = api.url.replace("http:", "https:")
    with Client(url) as joblane, pytest.raises(UnreachableError, match="cannot reach the API at"):
        joblane.health()


def self_signed(folder: Path) -> Path:
    """Make a certificate that nobody has signed; it and its key in one file."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "127.0.0.1")])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("127.0.0.1")]), critical=False)
        .sign(key, hashes.SHA256())
    )
    file = folder / "server.pem"
    pem = serialization.Encoding.PEM
    private = key.private_bytes(
        pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    file.write_bytes(private + certificate.public_bytes(pem))
    return file


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


def test_what_the_package_promises_is_there() -> None:
    assert all(getattr(client, name) for name in client.__all__)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        client.nothing  # noqa: B018
