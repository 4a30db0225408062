"""Testers: what counts as well, what they refuse to look at, and that they answer in time."""

import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from ipaddress import ip_network
from typing import cast

import pytest

from functions.tester.handler import Settings, build
from joblane.aws.condition.directory import AppStore
from joblane.aws.functions import CalledFunction, FunctionFailed
from joblane.condition.names import Address
from joblane.service.condition.testers import BATCH, BadParameters, Finding
from joblane.service.condition.testers.net import ConditionGuard, HttpTester, TcpTester
from joblane.service.condition.testers.remote import RemoteTester
from joblane.service.condition.testers.tables import AppTester, Slots, SlotsTester
from joblane.state.lease import Heartbeat
from tests.support import recovery
from tests.support.aws import Cloud

LOOPBACK = (ip_network("127.0.0.0/8"),)
Serve = Callable[[socket.socket], None]


@contextmanager
def listening(serve: Serve) -> Iterator[int]:
    """A server on a loopback port that answers each connection in a thread."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def loop() -> None:
            while True:
                try:
                    connection, _ = server.accept()
                except OSError:
                    return
                threading.Thread(target=answer, args=(connection,), daemon=True).start()

        def answer(connection: socket.socket) -> None:
            with connection:
                try:
                    serve(connection)
                except OSError:  # the tester has hung up
                    return

        thread = threading.Thread(target=loop)
        thread.start()
        try:
            yield server.getsockname()[1]
        finally:
            server.shutdown(socket.SHUT_RDWR)
            thread.join(5)


def answering(text: str, asked: list[bytes] | None = None) -> Serve:
    def serve(connection: socket.socket) -> None:
        request = connection.recv(4096)
        if asked is not None:
            asked.append(request)
        connection.sendall(text.encode())

    return serve


def http(port: int, path: str = "/") -> str:
    return f"http://127.0.0.1:{port}{path}"


@pytest.mark.parametrize("status", [200, 204, 301, 399])
def test_2xx_and_3xx_are_well(status: int):
    with listening(answering(f"HTTP/1.1 {status} Whatever\r\n\r\n")) as port:
        finding = HttpTester(ConditionGuard(networks=LOOPBACK)).test(http(port))
    assert (BATCH, f"answers {status}") == (finding.allow, finding.why)


@pytest.mark.parametrize("status", [400, 404, 429, 500, 503])
def test_4xx_and_5xx_block(status: int):
    with listening(answering(f"HTTP/1.1 {status} Whatever\r\n\r\n")) as port:
        finding = HttpTester(ConditionGuard(networks=LOOPBACK)).test(http(port))
    assert (0, f"answers {status}") == (finding.allow, finding.why)


def test_the_answer_counts_not_what_came_before_or_stands_in_it():
    text = (
        "HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 503 No\r\nX: HTTP/1.1 200 OK\r\n\r\n"
    )
    with listening(answering(text)) as port:
        assert "answers 503" == HttpTester(ConditionGuard(networks=LOOPBACK)).test(http(port)).why


def test_the_request_is_a_plain_get_of_the_url():
    asked: list[bytes] = []
    with listening(answering("HTTP/1.0 200\r\n\r\n", asked)) as port:
        assert (
            BATCH == HttpTester(ConditionGuard(networks=LOOPBACK)).test(http(port, "/a?b=c")).allow
        )
    assert asked[0].startswith(f"GET /a?b=c HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n".encode())


def test_a_redirect_is_an_answer_and_nobody_follows_it():
    asked: list[bytes] = []
    with listening(answering("HTTP/1.1 200 OK\r\n\r\n", asked)) as inner:
        redirect = f"HTTP/1.1 302 Found\r\nLocation: {http(inner)}\r\n\r\n"
        with listening(answering(redirect)) as port:
            assert (
                "answers 302" == HttpTester(ConditionGuard(networks=LOOPBACK)).test(http(port)).why
            )
    assert [] == asked


@pytest.mark.parametrize("text", ["", "SSH-2.0-OpenSSH_9.6\r\n", "HTTP/9 999\r\n\r\n"])
def test_what_is_not_http_blocks(text: str):
    with listening(answering(text)) as port:
        finding = HttpTester(ConditionGuard(networks=LOOPBACK)).test(http(port))
    assert (0, "does not speak HTTP") == (finding.allow, finding.why)


def test_https_needs_a_certificate_that_holds():
    with listening(answering("HTTP/1.1 200 OK\r\n\r\n")) as port:
        finding = HttpTester(ConditionGuard(networks=LOOPBACK)).test(f"https://127.0.0.1:{port}/")
    assert (0, "TLS handshake failed") == (finding.allow, finding.why)


def test_a_server_that_drips_does_not_stretch_the_time():
    """It stops only when the tester hangs up; all of HEAD_BYTES would take it 13 minutes."""

    def drip(connection: socket.socket) -> None:
        while True:
            connection.sendall(b"x")
            time.sleep(0.05)

    with listening(drip) as port:
        finding = HttpTester(ConditionGuard(networks=LOOPBACK), timeout_s=0.5).test(http(port))
    assert 0 == finding.allow
    assert finding.why.startswith("no answer within")


def test_another_function_answers_as_if_it_were_asked_here():
    settings = {"allow_hosts": "[]", "allow_networks": '["127.0.0.0/8"]'}
    shared = {"deployment": "joblane", "queue_url_prefix": "https://sqs.example/"}
    names = {f"JOBLANE_{name.upper()}": value for name, value in {**settings, **shared}.items()}
    function = build(Settings.model_validate(names))

    def called(event: object) -> object:
        return json.loads(json.dumps(function.answer(json.loads(json.dumps(event)))))

    tester = RemoteTester("http", cast("CalledFunction", called))
    with listening(answering("HTTP/1.1 503 No\r\n\r\n")) as port:
        assert Finding(0, "answers 503") == tester.test(http(port))
    with pytest.raises(BadParameters, match="allow_hosts"):
        tester.test("http://8.8.8.8/")


def test_a_function_that_fails_blocks():
    def failed(_: object) -> object:
        raise FunctionFailed("joblane-tester failed with Unhandled")

    tester = RemoteTester("tcp", cast("CalledFunction", failed))
    assert Finding(0, "could not be tested") == tester.test("x.example:1")


def test_tcp_is_well_while_something_accepts():
    with listening(answering("")) as port:
        assert BATCH == TcpTester(ConditionGuard(networks=LOOPBACK)).test(f"127.0.0.1:{port}").allow
    finding = TcpTester(ConditionGuard(networks=LOOPBACK)).test(f"127.0.0.1:{port}")
    assert (0, "refuses connections") == (finding.allow, finding.why)


def test_the_second_address_is_tried_when_the_first_refuses():
    with listening(answering("")) as port:
        guard = ConditionGuard((), LOOPBACK, lambda _: ["127.0.0.9", "127.0.0.1"])
        assert BATCH == TcpTester(guard).test(f"two.example:{port}").allow


def test_a_name_that_does_not_resolve_blocks():
    def unresolved(_: Address) -> list[str]:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    guard = ConditionGuard({"nowhere.example"}, resolve=unresolved)
    finding = TcpTester(guard).test("nowhere.example:1")
    assert (0, "its name does not resolve") == (finding.allow, finding.why)


INNER = [
    "127.0.0.1",
    "0.0.0.0",  # noqa: S104 - an address to refuse
    "10.1.2.3",
    "172.16.0.1",
    "192.168.1.1",
    "100.64.0.1",
    "169.254.169.254",
    "169.254.170.2",
    "224.0.0.251",
    "255.255.255.255",
    "::1",
    "::",
    "fe80::1",
    "fe80::1%eth0",
    "fc00::1",
    "fd00:ec2::254",
    "ff02::1",
    "::ffff:127.0.0.1",
    "::ffff:169.254.169.254",
    "64:ff9b::a9fe:a9fe",
    "2002:7f00:0001::1",
    "fec0::1",
    "3fff::1",
    "5f00::1",
]


@pytest.mark.parametrize("address", INNER)
def test_inner_addresses_are_refused_however_they_are_written(address: str):
    guard = ConditionGuard({"innocent.example"}, resolve=lambda _: [address])
    with pytest.raises(BadParameters, match="allow_networks"):
        guard.addresses(Address("innocent.example", 80))


@pytest.mark.parametrize("address", ["8.8.8.8", "2606:4700::1111", "64:ff9b::808:808"])
def test_public_addresses_are_fine_for_listed_hosts(address: str):
    guard = ConditionGuard({"x.example"}, resolve=lambda _: [address])
    assert [address] == guard.addresses(Address("X.example", 80))


@pytest.mark.parametrize("host", ["x.example", "8.8.8.8", "listed.example.evil.example"])
def test_a_host_that_is_not_listed_is_not_even_resolved(host: str):
    """The look-up itself would carry the name to whoever serves its domain."""

    def resolved(_: Address) -> list[str]:
        raise AssertionError("it was resolved")

    with pytest.raises(BadParameters, match="allow_hosts"):
        ConditionGuard({"listed.example"}, resolve=resolved).addresses(Address(host, 80))


def test_a_host_that_is_not_listed_is_reached_in_allowed_networks_only():
    guard = ConditionGuard({"listed.example"}, (ip_network("10.1.0.0/16"),), lambda _: ["8.8.8.8"])
    with pytest.raises(BadParameters, match="allow_hosts"):
        guard.addresses(Address("x.example", 80))


@pytest.mark.parametrize("host", ["a..b", "x" * 64 + ".example"])
def test_a_host_that_dns_cannot_express_is_refused_and_breaks_nothing(host: str):
    with pytest.raises(BadParameters, match="not a valid name"):
        HttpTester(ConditionGuard(networks=LOOPBACK)).test(f"http://{host}/")


@pytest.mark.parametrize(
    "address",
    [
        "169.254.169.254",
        "fe80::1",
        "fd00:ec2::254",
        "::ffff:169.254.169.254",
        "2001:0:4142:4344::5601:5601",  # Teredo: the same address inverted at its end
    ],
)
def test_no_configuration_opens_the_credentials_of_an_instance(address: str):
    everything = (ip_network("0.0.0.0/0"), ip_network("::/0"))
    with pytest.raises(BadParameters):
        ConditionGuard({"x.example"}, everything, lambda _: [address]).addresses(
            Address("x.example", 80)
        )


def test_what_the_configuration_allows_is_reached_and_the_rest_left_out():
    guard = ConditionGuard((), (ip_network("10.1.0.0/16"),), lambda _: ["10.2.0.1", "10.1.0.1"])
    assert ["10.1.0.1"] == guard.addresses(Address("db.internal", 5432))


@pytest.mark.parametrize("host", ["127.1", "2130706433", "0x7f000001", "localhost"])
def test_odd_spellings_of_loopback_are_seen_through(host: str):
    with pytest.raises(BadParameters):
        HttpTester(ConditionGuard({host})).test(f"http://{host}:1/")


def test_the_connection_goes_to_the_address_that_was_looked_at():
    """A name that resolves to an inner address a moment later gains nothing by it."""
    answers = [["127.0.0.1"], ["10.0.0.1"]]
    with listening(answering("HTTP/1.1 200 OK\r\n\r\n")) as port:
        guard = ConditionGuard((), LOOPBACK, lambda _: answers.pop(0))
        assert BATCH == HttpTester(guard).test(f"http://rebinds.example:{port}/").allow
    assert 1 == len(answers)


def agent(name: str, *, beat_ms: int = 0, running: int = 0, queues: tuple[str, ...]) -> Heartbeat:
    return Heartbeat(
        name=name,
        since_ms=0,
        beat_ms=beat_ms,
        threads=4,
        running=running,
        queues=queues,
        isolation="namespaces",
        version="test",
    )


def test_capacity_is_the_free_slots_of_live_agents_on_its_queues(aws: Cloud):
    aws.agents.beat(agent("busy", running=4, queues=("default",)))
    aws.agents.beat(agent("idle", running=1, queues=("default", "bulk")))
    aws.agents.beat(agent("elsewhere", queues=("other",)))
    aws.agents.beat(agent("dead", beat_ms=-301_000, queues=("default",)))
    slots = Slots(aws.agents, lambda: 0.0)
    tester = SlotsTester(slots, "fleet", {"main": ("default",), "bulk": ("bulk",), "none": ()})
    assert "3 free slot(s) on 2 live agent(s)" == tester.test("main").why
    assert 3 == tester.test("main").allow
    assert 3 == tester.test("bulk").allow
    for unknown in ("nowhere", "none"):
        with pytest.raises(BadParameters, match="there is no fleet of this name") as refusal:
            tester.test(unknown)
        assert not {"main", "bulk"} & set(str(refusal.value).split())


def test_no_agent_is_no_capacity(aws: Cloud):
    tester = SlotsTester(Slots(aws.agents, lambda: 0.0), "tenant", {"acme": ("default",)})
    assert 0 == tester.test("acme").allow


def test_an_application_is_held_back_while_declared_down(aws: Cloud):
    apps = AppStore(aws.clients.make("dynamodb"), recovery.TABLE)
    now = [1000.0]
    tester = AppTester(apps, lambda: now[0])
    assert BATCH == tester.test("billing").allow
    apps.declare_down("billing", "migration until noon", 2000)
    assert (0, "declared down: migration until noon") == (
        tester.test("billing").allow,
        tester.test("billing").why,
    )
    assert BATCH == tester.test("other").allow
    now[0] = 2000.0
    assert BATCH == tester.test("billing").allow
    apps.declare_down("billing", "again", 9000)
    apps.declare_up("billing")
    assert BATCH == tester.test("billing").allow


def test_declarations_are_listed_by_tenant_also_if_no_job_waits(aws: Cloud):
    apps = AppStore(aws.clients.make("dynamodb"), recovery.TABLE)
    apps.declare_down("acme/mail", "m", 3000)
    apps.declare_down("acme/billing", "b", 2000)
    apps.declare_down("acme-2/other", "o", 3000)
    apps.declare_down("ledger", "l", 3000)
    assert [("billing", "b", 2000), ("mail", "m", 3000)] == [
        (down.app, down.why, down.until_s) for down in apps.outages("acme", 1999)
    ]
    assert ["mail"] == [down.app for down in apps.outages("acme", 2000)]  # TTL deletes late
    assert ["ledger"] == [down.app for down in apps.outages("", 1000)]
    apps.declare_up("acme/mail")
    assert [] == apps.outages("acme", 2000)
