"""The loops that collect and publish an agent's facts, in virtual time."""

import asyncio
import json
import logging
import socket
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import EndpointConnectionError

from ec2_agent.facts import publishing
from ec2_agent.facts.collecting import FactCollector
from ec2_agent.facts.command import CommandFailed
from ec2_agent.facts.host import HostFacts, host_facts, instance_facts
from ec2_agent.facts.known import KnownFacts
from ec2_agent.facts.publishing import CHANGE_S, RENEW_S, FactPublisher
from ec2_agent.host.metadata import Metadata, MetadataUnavailable
from joblane.aws.fleet.facts import KEPT_S, FactStore
from joblane.target.fact_command import FactCommand
from joblane.target.facts import BUILT_IN, LEFT_OUT, MAX_FACTS_BYTES, Facts, encode
from scripts.costs.prices import HOURS, WRITE_UNIT
from scripts.costs.usage import AgentUsage
from tests.support import inline_calls
from tests.support.aws import DESCRIPTOR, Cloud
from tests.support.meter import Meter, item_size

HOUR_S = 3600
NAME = "i-0123456789abcdef0"
FULL = dict.fromkeys(BUILT_IN, "x" * 40) | {f"custom.{n}": "y" * 20 for n in range(30)}
USUAL: Facts = {
    "architecture": "aarch64",
    "kernel": "6.1.112-124.190.amzn2023.aarch64",
    "cpus": 2,
    "memory_mb": 3836,
    "distribution": "amzn",
    "distribution_version": "2023",
    "hostname": "ip-10-0-123-107.eu-central-1.compute.internal",
    "instance_type": "c7g.24xlarge",
    "zone": "eu-central-1a",
    "spot": True,
    "joblane_version": "0.1.0",
    "python_version": "3.11.2",
    "fqdn": "ip-10-0-123-107.eu-central-1.compute.internal",
    "service_manager": "systemd",
    "package_manager": "dnf",
    "machine_id": "3d1219c7c4c5404aaa1f6d2a48adfda4",
    "uptime": 17_933,
    "interface.primary": "ens5",
    "ip.primary": "10.0.123.107",
    "interfaces": "ens5 10.0.123.107/20",
    "routes": "default via 10.0.112.1 dev ens5, 10.0.0.2 via 10.0.112.1 dev ens5, "
    "10.0.112.0/20 dev ens5, 10.0.112.1 dev ens5",
}
"""Facts of an instance of Amazon Linux."""


class Recorder(FactStore):
    """Facts that were written, with the times."""

    def __init__(self) -> None:
        self.written: list[tuple[float, dict[str, Any]]] = []
        self.unreachable_until = 0.0
        self.deleted = 0

    def put(self, agent: str, facts: Facts, now_s: int) -> None:
        """See FactStore."""
        assert NAME == agent
        if now_s < self.unreachable_until:
            raise EndpointConnectionError(endpoint_url="https://dynamodb.test")
        self.written.append((asyncio.get_running_loop().time(), dict(facts)))

    def delete(self, agent: str) -> None:
        """See FactStore."""
        assert NAME == agent
        self.deleted += 1

    @property
    def times(self) -> list[int]:
        """When they were written, in whole seconds."""
        return [round(at) for at, _ in self.written]


def clock() -> float:
    return asyncio.get_running_loop().time()


def publish(
    seconds: float, change: Mapping[float, Facts], known: KnownFacts, store: FactStore
) -> None:
    """Publish for so many seconds; at the times in `change` the host has other facts."""

    async def work() -> None:
        loop = asyncio.get_running_loop()
        for at, facts in change.items():
            loop.call_later(at, known.host, facts)
        publisher = FactPublisher(NAME, store, known, clock)
        task = asyncio.create_task(publisher.keep())
        await asyncio.sleep(seconds)
        task.cancel()

    inline_calls.run(work())


def hour(aws: Cloud, change: Mapping[float, Facts]) -> tuple[Meter, dict[str, Any]]:
    """What an hour of facts costs, and the item at its end."""
    meter = Meter()
    store = FactStore(meter.clients_of(aws).make("dynamodb"), DESCRIPTOR.agents_table)
    publish(HOUR_S, change, KnownFacts(), store)
    assert {"dynamodb.PutItem": HOUR_S / RENEW_S} == meter.calls
    row = aws.clients.make("dynamodb").get_item(
        TableName=DESCRIPTOR.agents_table,
        Key={"shard": {"S": f"FACTS#{NAME}"}, "agent": {"S": "FACTS"}},
    )["Item"]
    return meter, row


def test_an_hour_of_facts_costs_less_than_70_dollars_a_month_for_10_000_agents(aws: Cloud):
    # Of a host without containers, with an uptime that passes.
    meter, row = hour(aws, {at: {**USUAL, "uptime": 100_000 + at} for at in range(0, HOUR_S, 60)})
    assert {*BUILT_IN} <= json.loads(row["facts"]["S"]).keys()
    assert meter.calls["dynamodb.PutItem"] == meter.write_units, "a unit each"
    assert 68 < WRITE_UNIT.of(meter.write_units * HOURS * 10_000) < 70
    assert AgentUsage(queues=1).fact_write_units == pytest.approx(meter.write_units * HOURS)


def test_the_most_facts_cost_twice_as_much(aws: Cloud):
    meter, row = hour(aws, {0: FULL})
    assert MAX_FACTS_BYTES - 60 < len(row["facts"]["S"]) <= MAX_FACTS_BYTES, "as much as fits"
    assert 1024 < item_size(row) <= 2048
    assert 2 * meter.calls["dynamodb.PutItem"] == meter.write_units


def test_the_longest_name_of_an_agent_leaves_room_for_the_most_facts(aws: Cloud):
    store = FactStore(aws.clients.make("dynamodb"), DESCRIPTOR.agents_table)
    facts = {"x": "y" * (MAX_FACTS_BYTES - len('{"x":""}'))}
    assert MAX_FACTS_BYTES == len(encode(facts))
    agent = "a" * 40
    store.put(agent, facts, 2_000_000_000)
    items = aws.clients.make("dynamodb").scan(TableName=DESCRIPTOR.agents_table)["Items"]
    assert item_size(items[0]) <= 2048
    assert facts == store.get(agent, 2_000_000_000)
    assert [] == list(aws.agents.read_all()), "not in the list of agents"


def test_facts_are_written_when_they_change_and_otherwise_to_stay_valid():
    store = Recorder()
    change: dict[float, Facts] = {
        0: {"a": 1},
        10: {"a": 2},
        11: {"a": 3},
        100: {"a": 4},
        110: {"a": 4},
    }
    publish(600, change, KnownFacts(), store)
    assert [0, CHANGE_S, 2 * CHANGE_S, 2 * CHANGE_S + RENEW_S] == store.times
    assert [1, 3, 4, 4] == [facts["a"] for _, facts in store.written]
    assert RENEW_S + CHANGE_S <= KEPT_S


def test_facts_that_change_all_the_time_are_written_once_a_minute():
    store = Recorder()
    publish(HOUR_S - 1, {at: {"a": at} for at in range(HOUR_S)}, KnownFacts(), store)
    assert list(range(0, HOUR_S, 60)) == store.times


def test_the_first_write_waits_for_fact_commands_but_not_for_long():
    store, known = Recorder(), KnownFacts(["slow"])
    publish(30, {1: {"a": 1}}, known, store)
    assert [(publishing.FIRST_S, {"a": 1})] == store.written


def test_a_write_that_fails_is_made_again_and_logged_once(caplog: pytest.LogCaptureFixture):
    store = Recorder()
    store.unreachable_until = 50
    with caplog.at_level(logging.INFO, "joblane"):
        publish(100, {0: {"a": 1}, 10: {"a": 2}}, KnownFacts(), store)
    assert [(60, {"a": 2})] == store.written
    assert ["facts_not_written"] == [record.__dict__["event"] for record in caplog.records]


def test_an_agent_that_leaves_deletes_its_facts_and_writes_no_more():
    store, known = Recorder(), KnownFacts()

    async def work() -> None:
        publisher = FactPublisher(NAME, store, known, clock)
        task = asyncio.create_task(publisher.keep())
        known.host({"a": 1})
        await asyncio.sleep(1)
        await publisher.end()
        known.host({"a": 2})
        await asyncio.sleep(HOUR_S)
        task.cancel()

    inline_calls.run(work())
    assert (1, 1) == (len(store.written), store.deleted)


def test_expired_facts_are_hidden_and_others_read_by_the_hundred(aws: Cloud):
    store = FactStore(aws.clients.make("dynamodb"), DESCRIPTOR.agents_table)
    store.put("old", {"a": 1}, 1000)
    store.put("new", {"a": 2, "b": "x"}, 1200)
    assert {"a": 1} == store.get("old", 1000 + KEPT_S - 1)
    assert {} == store.get("old", 1000 + KEPT_S) == store.get("none", 0)
    names = ["old", "new", *(f"n{number}" for number in range(150))]
    assert {"old": {}, "new": {"a": 2, "b": "x"}} == store.many(names, 1000 + KEPT_S)
    store.delete("new")
    assert {} == store.get("new", 1200)


Run = Callable[[FactCommand], bytes]


def collect(run: Run, seconds: float, known: KnownFacts, **commands: FactCommand) -> None:
    """Collect for so many seconds."""

    async def work() -> None:
        task = asyncio.create_task(FactCollector(known, HostFacts(None), commands, run).keep())
        await asyncio.sleep(seconds)
        task.cancel()

    inline_calls.run(work())


def test_commands_run_in_their_intervals():
    runs: list[tuple[str, float]] = []

    def run(command: FactCommand) -> bytes:
        runs.append((command.command[0], asyncio.get_running_loop().time()))
        return f"{len(runs)}".encode()

    known = KnownFacts(["a", "b"])
    collect(
        run,
        601,
        known,
        a=FactCommand(command=("a",)),
        b=FactCommand(command=("b",), every_s=60),
    )
    assert [0, 300, 600] == [at for name, at in runs if name == "a"]
    assert list(range(0, 601, 60)) == [at for name, at in runs if name == "b"]
    assert {*host_facts(), "a", "b"} == {*known.values}
    assert known.values["a"] != "1"


def test_a_command_that_fails_leaves_its_facts_out_and_is_logged_once(
    caplog: pytest.LogCaptureFixture,
):
    outputs: Iterator[bytes | Exception] = iter(
        [b'{"x": 1}', CommandFailed("exit code 3"), b"\xff", b'{"x": 2}', b"{"]
    )
    seen = []
    known = KnownFacts(["a"])

    def run(command: FactCommand) -> bytes:
        assert ("a",) == command.command
        seen.append(dict(known.values))
        output = next(outputs)
        if isinstance(output, Exception):
            raise output
        return output

    with caplog.at_level(logging.INFO, "joblane"):
        collect(run, 250, known, a=FactCommand(command=("a",), every_s=60))
    assert [None, 1, None, None, 2] == [facts.get("a.x") for facts in seen]
    assert [None, None, "a", "a", None] == [facts.get(LEFT_OUT) for facts in seen]
    logged = [(r.__dict__["event"], r.getMessage()) for r in caplog.records]
    assert [
        "facts_left_out",
        "fact_command_failed",
        "fact_command_works",
        "facts_left_out",
        "fact_command_failed",
    ] == [event for event, _ in logged]
    assert ("fact_command_failed", "fact command a: its facts are left out: exit code 3") in logged


def test_a_job_that_comes_first_waits_for_a_fact_that_it_names_and_for_no_other():
    known, waited = KnownFacts(["slow"]), []

    async def ask(name: str) -> None:
        facts = await known.having([name])
        waited.append((name, asyncio.get_running_loop().time(), facts.get(name)))

    async def work() -> None:
        loop = asyncio.get_running_loop()
        known.host({"kernel": "6"})
        loop.call_later(7, known.custom, "slow", {"slow": "s"})
        await asyncio.gather(*map(ask, ["slow", "kernel", "none"]))

    inline_calls.run(work())
    assert [("kernel", 0, "6"), ("slow", 7, "s"), ("none", 7, None)] == waited


class Service(Metadata):
    """A metadata service that does not answer at first."""

    def __init__(self, paths: Mapping[str, str], failures: int = 0) -> None:
        super().__init__("http://metadata.test")
        self._paths = paths
        self.failures = failures
        self.asked = 0

    def get(self, path: str) -> str | None:
        """See Metadata."""
        self.asked += 1
        if self.failures:
            self.failures -= 1
            raise MetadataUnavailable("ConnectTimeoutError")
        return self._paths.get(path.removeprefix("/latest/meta-data/"))


INSTANCE = {
    "instance-type": "c7g.large",
    "placement/availability-zone": "eu-west-1a",
    "instance-life-cycle": "spot",
}


def test_facts_of_an_instance_are_read_once_the_service_answers():
    service = Service(INSTANCE, failures=1)
    host = HostFacts(service)

    async def work() -> None:
        first, second, third = [await host.read() for _ in range(3)]
        assert host_facts().keys() == first.keys()
        assert {"instance_type": "c7g.large", "zone": "eu-west-1a", "spot": True} == {
            name: second[name] for name in second.keys() - first.keys()
        }
        assert {**second, "uptime": third["uptime"]} == third
        assert 4 == service.asked, "not again"

    inline_calls.run(work())
    assert {} == instance_facts(Service({}))
    assert {"spot": False} == instance_facts(Service({"instance-life-cycle": "on-demand"}))


def test_facts_of_a_host_are_of_the_documented_names_and_types():
    facts = {**host_facts(), **instance_facts(Service(INSTANCE))}
    assert {*facts} <= {*BUILT_IN}
    assert {*BUILT_IN} - {*facts} <= {
        *("distribution", "distribution_version", "service_manager", "package_manager"),
        *("machine_id", "interface.primary", "ip.primary", "interfaces", "routes"),
    }
    assert {"cpus": int, "memory_mb": int, "spot": bool, "uptime": int} == {
        name: type(value) for name, value in facts.items() if not isinstance(value, str)
    }
    assert facts == json.loads(encode(facts))


def test_facts_of_the_system_are_found_by_what_is_there(tmp_path: Path):
    named = ("service_manager", "package_manager", "machine_id")

    def found() -> list[object]:
        facts = host_facts(tmp_path)
        return [facts.get(name) for name in named]

    assert [None, None, None] == found(), "no guess"
    for folder in ("run/systemd/system", "usr/bin", "sbin", "etc"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "etc/machine-id").write_text("uninitialized\n")
    (tmp_path / "sbin/apk").touch(mode=0o755)
    assert ["systemd", "apk", None] == found()
    (tmp_path / "etc/machine-id").write_text("3d1219c7c4c5404aaa1f6d2a48adfda4\n")
    for command in ("yum", "dnf"):
        (tmp_path / "usr/bin" / command).touch(mode=0o755)
    assert ["systemd", "dnf", "3d1219c7c4c5404aaa1f6d2a48adfda4"] == found()


@pytest.mark.parametrize(
    ("hostname", "canonical", "fqdn"),
    [
        ("ip-10-0-1-7.ec2.internal", None, "ip-10-0-1-7.ec2.internal"),
        ("db1", "db1.example.org", "db1.example.org"),
        ("db1", "localhost", "db1"),  # of /etc/hosts
        ("db1", None, "db1"),
    ],
)
def test_the_full_name_is_the_hostname_with_its_domain(
    hostname: str, canonical: str | None, fqdn: str, monkeypatch: pytest.MonkeyPatch
):
    def resolve(name: str, port: None, flags: int) -> list[tuple[object, ...]]:
        assert (hostname, socket.AI_CANONNAME) == (name, flags)
        if canonical is None:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return [(0, 0, 0, canonical, ("10.0.0.1", 0)), (0, 0, 0, "", ("10.0.0.1", 0))]

    monkeypatch.setattr(socket, "gethostname", lambda: hostname)
    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    assert fqdn == host_facts()["fqdn"]


def test_what_is_no_text_or_no_name_of_the_internet_ends_no_reading(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """An error would end the loop of the facts, and so the agent."""
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/machine-id").write_bytes(b"\xff\xfe\n")
    hostname = "h" * 64  # Linux takes them, and the encoding of names does not
    monkeypatch.setattr(socket, "gethostname", lambda: hostname)
    facts = host_facts(tmp_path)
    assert hostname == facts["fqdn"]
    assert "machine_id" not in facts
