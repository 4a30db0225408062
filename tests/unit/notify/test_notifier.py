"""Deliver notifications: signed webhooks, topics, the bus; what fails comes back later."""

import json
import socket
import ssl
import threading
from http.server import BaseHTTPRequestHandler
from typing import Any

import pytest
from aws_lambda_powertools.logging import Logger

from functions.notifier import handler
from joblane.aws.notify.queue import NotifyQueue
from joblane.client.webhooks import verify
from joblane.condition.names import Address
from joblane.contract.job_events import Delivery
from joblane.deployment.names import notify_name
from joblane.service.notify.notifier import NotDelivered, Notifier
from joblane.service.notify.webhook import Webhooks
from joblane.service.outbound import Guard, HostForbidden
from tests.support.aws import FUNCTION_ENVIRONMENT, JOBS_TOPIC, NAME, PREFIX, Cloud, configure
from tests.support.jobs import JOB
from tests.support.webhook_receiver import (
    EVENT,
    NOW,
    REFERENCE,
    RULES,
    SECRET,
    delivery,
    failure_of,
    receiving,
    record,
    status,
    webhooks,
)


def test_a_webhook_is_a_signed_post_of_the_event():
    with receiving(status(204)) as receiver:
        webhooks().deliver(delivery(url=receiver.url), 3)
    ((path, headers, body),) = receiver.requests
    assert "/hook?x=1" == path
    event = verify(body, headers["Joblane-Signature"], SECRET, now_s=NOW)
    assert EVENT.model_dump(mode="json") == event
    assert ("job.failed", EVENT.id, "3", "application/json") == (
        headers["Joblane-Event"],
        headers["Joblane-Delivery"],
        headers["Joblane-Attempt"],
        headers["Content-Type"],
    )
    assert receiver.url.split("/")[2] == headers["Host"]


def test_each_line_of_the_secret_signs():
    with receiving(status(200)) as receiver:
        webhooks(secret=f"{SECRET}\n{SECRET[::-1]}").deliver(delivery(url=receiver.url), 1)
    ((_, headers, body),) = receiver.requests
    for secret in (SECRET, SECRET[::-1]):
        assert verify(body, headers["Joblane-Signature"], secret, now_s=NOW)


@pytest.mark.parametrize("code", [200, 201, 202, 204])
def test_any_2xx_is_a_delivery(code: int):
    with receiving(status(code)) as receiver:
        webhooks().deliver(delivery(url=receiver.url), 1)


@pytest.mark.parametrize("code", [301, 307, 400, 404, 410, 429, 500, 503])
def test_any_other_status_is_none_and_no_redirect_is_followed(code: int):
    with receiving(status(200)) as inner, receiving(status(code, Location=inner.url)) as receiver:
        assert f"the receiver answers {code}" == failure_of(webhooks(), receiver.url)
        assert [] == inner.requests


def test_a_receiver_that_is_down_has_a_plain_reason():
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    assert "the receiver: refuses connections" == failure_of(
        webhooks(), f"http://127.0.0.1:{port}/"
    )


def test_a_receiver_that_never_answers_takes_no_longer_than_allowed():
    free = threading.Event()

    def hang(_: BaseHTTPRequestHandler) -> None:
        free.wait(10)

    with receiving(hang) as receiver:
        why = failure_of(webhooks(timeout_s=0.3), receiver.url)
        free.set()
    assert "the receiver: no answer within 0.3 s" == why


def test_tls_needs_a_certificate_that_holds_for_the_name():
    with receiving(status(200)) as receiver:
        url = receiver.url.replace("http://", "https://")
        assert "the receiver: TLS handshake failed" == failure_of(webhooks(), url)


PRIVATE = [
    "127.0.0.1",
    "10.1.2.3",
    "172.16.0.1",
    "192.168.1.1",
    "100.64.0.1",
    "169.254.169.254",
    "169.254.100.1",
    "0.0.0.0",  # noqa: S104 - an address to refuse
    "224.0.0.1",
    "240.0.0.1",
    "::1",
    "::",
    "::10.0.0.1",
    "fe80::1",
    "fc00::1",
    "fd00:ec2::254",
    "::ffff:10.0.0.1",
    "::ffff:169.254.169.254",
    "64:ff9b::a9fe:a9fe",
    "64:ff9b:1::a00:1",
    "2002:7f00:0001::1",
    "fec0::1",
    "3fff::1",
    "5f00::1",
]


@pytest.mark.parametrize("address", PRIVATE)
def test_no_name_leads_to_an_address_that_is_not_public(address: str):
    asked: list[Address] = []

    def resolve(what: Address) -> list[str]:
        asked.append(what)
        return [address]

    channel = webhooks(Guard(every_host=True, resolve=resolve))
    problem = "this deployment does not allow its host or its address"
    assert problem == failure_of(channel, "https://innocent.example/")
    assert [Address("innocent.example", 443)] == asked


@pytest.mark.parametrize("address", ["8.8.8.8", "2606:4700::1111", "64:ff9b::808:808"])
def test_every_host_may_be_reached_at_public_addresses(address: str):
    guard = Guard(every_host=True, resolve=lambda _: [address])
    assert [address] == guard.addresses(Address("any.example", 443))


def test_a_name_that_changes_its_address_is_connected_to_the_one_that_was_checked(
    monkeypatch: pytest.MonkeyPatch,
):
    """DNS rebinding: the name is resolved once, and TLS still asks for the name."""
    answers = [["8.8.8.8"], ["127.0.0.1"]]
    connected: list[Any] = []
    names: list[str] = []

    def connect(address: Any, timeout: float) -> socket.socket:
        assert timeout > 0
        connected.append(address)
        ours, theirs = socket.socketpair()
        theirs.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
        theirs.close()
        return ours

    def wrap(_: Any, _plain: socket.socket, server_hostname: str) -> socket.socket:
        names.append(server_hostname)
        raise ssl.SSLError(1, "as the test wants")

    monkeypatch.setattr(socket, "create_connection", connect)
    monkeypatch.setattr(ssl.SSLContext, "wrap_socket", wrap)
    channel = webhooks(Guard(every_host=True, resolve=lambda _: answers.pop(0)))
    assert "the receiver: TLS handshake failed" == failure_of(channel, "https://rebinds.example/")
    assert ([("8.8.8.8", 443)], ["rebinds.example"]) == (connected, names)
    assert 1 == len(answers)


def test_a_host_that_dns_cannot_express_is_refused():
    assert "its host is not a valid name" == failure_of(webhooks(), "https://a..b/")
    with pytest.raises(HostForbidden, match="not a valid name"):
        Guard(every_host=True).addresses(Address("x" * 64 + ".example", 443))


@pytest.mark.parametrize("secret", ["", "\n\n", "short", f"{SECRET}\nshort"])
def test_a_secret_that_signs_nothing_well_is_refused(secret: str):
    with receiving(status(200)) as receiver:
        why = failure_of(webhooks(secret=secret), receiver.url)
        assert [] == receiver.requests
    assert "must have a line of at least 16 characters" in why


def test_the_secret_is_read_once_for_many(monkeypatch: pytest.MonkeyPatch):
    read: list[tuple[str, str]] = []

    def secret(reference: str, tenant: str) -> str:
        read.append((reference, tenant))
        return SECRET

    clock = [100.0]
    monkeypatch.setattr("joblane.service.notify.webhook.time.monotonic", lambda: clock[0])
    channel = Webhooks(RULES, secret, Guard(networks=RULES.allow_networks), lambda: NOW)
    with receiving(status(200)) as receiver:
        for at in (100.0, 399.0, 401.0):
            clock[0] = at
            channel.deliver(delivery(url=receiver.url), 1)
    assert [(f"secretsmanager:{REFERENCE}", "acme")] * 2 == read


def test_what_joblane_toml_does_not_allow_any_more_is_not_delivered(aws: Cloud):
    environment = {**FUNCTION_ENVIRONMENT, "JOBLANE_NOTIFY": '{"tenants": {"acme": {}}}'}
    notifier = handler.build(handler.Settings.model_validate(environment), aws.clients, lambda: NOW)
    asked: list[dict[str, Any]] = [{"url": "https://a.example/"}, {"sns": JOBS_TOPIC}]
    asked.append({"eventbridge": True})
    records = [record(delivery(**notify), number=n) for n, notify in enumerate(asked)]
    assert ["m0", "m1", "m2"] == notifier.handle(records)


def test_a_network_that_is_not_allowed_any_more_is_not_reached():
    """The guard alone would let it pass."""
    rules = RULES.model_copy(update={"allow_networks": ()})
    guard = Guard(networks=RULES.allow_networks)
    channel = Webhooks(rules, lambda *_: SECRET, guard, lambda: NOW)
    with receiving(status(200)) as receiver:
        assert "notify.url must begin with https://" == failure_of(channel, receiver.url)
        assert [] == receiver.requests


class Hidden(NotifyQueue):
    """A queue that notes what is put off."""

    def __init__(self) -> None:
        self.put_off: list[tuple[str, int]] = []

    def hide(self, receipt: str, seconds: int) -> None:
        """Note it."""
        self.put_off.append((receipt, seconds))


class Refusing:
    """A channel that delivers nothing."""

    def deliver(self, _delivery: Delivery, _attempt: int) -> None:
        """Fail."""
        raise NotDelivered("as the test wants")


@pytest.mark.parametrize(("receives", "wait_s"), [(1, 10), (2, 60), (3, 0), (4, 0)])
def test_what_fails_comes_back_later_each_time_and_then_to_the_dead_letters(
    receives: int, wait_s: int
):
    queue = Hidden()
    notifier = Notifier(queue, {"eventbridge": Refusing()}, (10, 60), Logger(), jitter=lambda: 0.5)
    assert ["m1"] == notifier.handle([record(delivery(eventbridge=True), receives)])
    assert [("r1", wait_s)] == queue.put_off


def test_what_cannot_be_read_or_breaks_fails_alone():
    class Breaking:
        def deliver(self, _delivery: Delivery, attempt: int) -> None:
            if attempt == 1:
                raise RuntimeError("as the test wants")

    queue = Hidden()
    notifier = Notifier(queue, {"eventbridge": Breaking()}, (10,), Logger())
    unreadable = {**record(delivery(eventbridge=True), 1, 2), "body": "no JSON"}
    good, broken = (record(delivery(eventbridge=True), n, n + 10) for n in (2, 1))
    assert ["m2", "m11"] == notifier.handle([unreadable, broken, good])
    assert {"r2", "r11"} == {receipt for receipt, _ in queue.put_off}


def test_the_log_names_the_host_and_never_the_url(caplog: pytest.LogCaptureFixture):
    notifier = Notifier(Hidden(), {"url": Refusing()}, (10,), Logger())
    notifier.handle([record(delivery(url="https://hooks.example/T0/secret-token"))])
    (entry,) = caplog.records
    assert ("hooks.example", JOB) == (vars(entry)["to"], vars(entry)["job_id"])
    assert "secret-token" not in str(vars(entry))


def test_the_function_delivers_by_each_way_and_puts_off_what_fails(aws: Cloud):
    sns, sqs = aws.clients.make("sns"), aws.clients.make("sqs")
    secrets = aws.clients.make("secretsmanager")
    secrets.create_secret(Name=REFERENCE, SecretString=SECRET)
    sns.create_topic(Name=JOBS_TOPIC.rpartition(":")[2])
    inbox = sqs.create_queue(QueueName="receiver")["QueueUrl"]
    arn = sqs.get_queue_attributes(QueueUrl=inbox, AttributeNames=["QueueArn"])["Attributes"]
    sns.subscribe(TopicArn=JOBS_TOPIC, Protocol="sqs", Endpoint=arn["QueueArn"])
    entries: list[Any] = []
    aws.emitter().register(
        "before-parameter-build.events.PutEvents",
        lambda params, **_: entries.extend(params["Entries"]),
    )
    notifier = handler.build(configure(handler.Settings), aws.clients, lambda: NOW)
    with receiving(status(200)) as up:
        asked: list[dict[str, Any]] = [{"url": up.url}, {"sns": JOBS_TOPIC}]
        asked.append({"eventbridge": True})
        assert [] == notifier.handle(record(delivery(**notify)) for notify in asked)
    assert 1 == len(up.requests)
    (received,) = sqs.receive_message(QueueUrl=inbox)["Messages"]
    published, (put,) = json.loads(received["Body"]), entries
    expected = EVENT.model_dump(mode="json")
    assert expected == json.loads(published["Message"]) == json.loads(put["Detail"])
    assert "job.failed" == published["MessageAttributes"]["event"]["Value"]
    assert ("joblane", "Joblane Job State Change") == (put["Source"], put["DetailType"])
    # A message that is really in the queue, whose receiver is gone.
    queue = PREFIX + notify_name(NAME)
    sqs.send_message(QueueUrl=queue, MessageBody=delivery(url=up.url).model_dump_json())
    (message,) = sqs.receive_message(QueueUrl=queue)["Messages"]
    failing = record(delivery(url=up.url)) | {"receiptHandle": message["ReceiptHandle"]}
    assert ["m1"] == notifier.handle([failing])
    counts = sqs.get_queue_attributes(
        QueueUrl=queue, AttributeNames=["ApproximateNumberOfMessagesNotVisible"]
    )
    assert "1" == counts["Attributes"]["ApproximateNumberOfMessagesNotVisible"]


def test_an_event_that_the_bus_refuses_is_not_delivered(
    aws: Cloud, caplog: pytest.LogCaptureFixture
):
    def refuse(parsed: dict[str, Any], **_: Any) -> None:
        entry = {"ErrorCode": "ThrottlingException", "ErrorMessage": "slow down"}
        parsed.update(FailedEntryCount=1, Entries=[entry])

    aws.emitter().register("after-call.events.PutEvents", refuse)
    notifier = handler.build(configure(handler.Settings), aws.clients, lambda: NOW)
    assert ["m1"] == notifier.handle([record(delivery(eventbridge=True))])
    said = "EventBridge refused the event: ThrottlingException: slow down"
    assert said == vars(caplog.records[0])["problem"]


def test_a_secret_that_is_missing_is_named(aws: Cloud, caplog: pytest.LogCaptureFixture):
    notifier = handler.build(configure(handler.Settings), aws.clients, lambda: NOW)
    assert ["m1"] == notifier.handle([record(delivery(url="https://a.example/"))])
    said = f"the secret secretsmanager:{REFERENCE}: there is no such secret"
    assert said in vars(caplog.records[0])["problem"]
