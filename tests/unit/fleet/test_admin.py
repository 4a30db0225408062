"""The admin function: agents as the role platform sees them, queues as tenants do."""

import time
from dataclasses import replace
from typing import Any

import pytest

from functions.admin.handler import Settings, build
from joblane import __version__
from joblane.aws.fleet.facts import KEPT_S, FactStore
from joblane.aws.queue.lanes import LaneQueue
from joblane.formats.times import rfc3339
from joblane.job.head import make_head
from joblane.job.message import Command, NotOurs
from joblane.state.lease import LEASE_S, Heartbeat, HostLoad
from joblane.target.facts import Facts
from tests.support.aws import DESCRIPTOR, Cloud, configure
from tests.support.jobs import JOB, named, submission
from tests.support.meter import Meter
from tests.support.requests import Api


@pytest.fixture(name="api")
def _api(aws: Cloud) -> Api:
    return Api(build(configure(Settings), aws.clients, time.time))


@pytest.fixture(name="platform")
def _platform(aws: Cloud) -> Api:
    return Api(build(configure(Settings), aws.clients, time.time), "client-platform")


def beat(aws: Cloud, name: str, age_s: float = 0, jobs: tuple[str, ...] = ()) -> None:
    now_ms = int((time.time() - age_s) * 1000)
    aws.agents.beat(Heartbeat(name, 0, now_ms, 4, 1, ("default",), "full", "0.1.0", jobs=jobs))


def test_health_needs_nobody_and_tells_the_version_that_is_packaged(api: Api):
    assert (200, {"status": "ok", "version": __version__}) == api("GET", "/v1/health")


def test_agents_are_listed_over_all_shards_once_each(aws: Cloud, platform: Api):
    names = {f"i-{n:04d}" for n in range(60)}
    for name in names:
        beat(aws, name)
    seen: list[str] = []
    cursor: dict[str, str] = {}
    while True:
        status, page = platform("GET", "/v1/agents", query={"limit": "7", **cursor})
        assert 200 == status
        assert len(page["entries"]) <= 7
        seen += [agent["name"] for agent in page["entries"]]
        if page["next"] is None:
            break
        cursor = {"next": page["next"]}
    assert len(names) == len(seen)
    assert names == set(seen)


def test_an_agent_whose_lease_ended_is_shown_as_such(aws: Cloud, platform: Api):
    beat(aws, "alive")
    beat(aws, "gone", LEASE_S + 1)
    entries = platform("GET", "/v1/agents")[1]["entries"]
    assert {"alive": True, "gone": False} == {a["name"]: a["alive"] for a in entries}


def test_agents_show_the_load_and_the_free_memory_of_their_hosts(aws: Cloud, platform: Api):
    shown = ("load", "free_memory_mb")
    beat(aws, "agent-1")
    assert [None, None] == [platform("GET", "/v1/agents/agent-1")[1][name] for name in shown]
    row = aws.agents.get("agent-1")
    assert row is not None
    aws.agents.beat(replace(row, host=HostLoad(1.25, 2210)))
    (entry,) = platform("GET", "/v1/agents")[1]["entries"]
    assert [1.25, 2210] == [entry[name] for name in shown]


def test_an_agent_that_says_goodbye_is_forgotten(aws: Cloud, platform: Api):
    beat(aws, "agent-1")
    aws.agents.delete("agent-1")
    assert [] == platform("GET", "/v1/agents")[1]["entries"]


def test_a_job_that_an_agent_lists_twice_is_shown_once(aws: Cloud, platform: Api):
    """As it does while it claims a job that it is about to adopt."""
    aws.jobs.put_new(make_head(JOB, "acme", submission(), 1000))
    beat(aws, "agent-1", jobs=(JOB, JOB))
    status, answer = platform("GET", "/v1/agents/agent-1")
    assert (200, [JOB]) == (status, [job["id"] for job in answer["jobs"]])


def test_an_agent_is_told_to_leave(aws: Cloud, platform: Api):
    beat(aws, "agent-1")
    sqs = aws.clients.make("sqs")
    inbox = sqs.create_queue(QueueName="joblane-inbox-agent-1")["QueueUrl"]
    status, answer = platform("POST", "/v1/agents/agent-1/drain")
    assert (202, "agent-1") == (status, answer["name"])
    (message,) = sqs.receive_message(QueueUrl=inbox)["Messages"]
    assert Command(command="drain") == Command.decode(message["Body"])


@pytest.mark.parametrize("command", ["cordon", "uncordon"])
def test_an_agent_is_cordoned_and_uncordoned(aws: Cloud, platform: Api, command: Any):
    assert 404 == platform("POST", f"/v1/agents/agent-1/{command}")[0]
    beat(aws, "agent-1")
    assert 409 == platform("POST", f"/v1/agents/agent-1/{command}")[0]  # no inbox
    sqs = aws.clients.make("sqs")
    inbox = sqs.create_queue(QueueName="joblane-inbox-agent-1")["QueueUrl"]
    for _ in range(2):  # the same again changes nothing
        status, answer = platform("POST", f"/v1/agents/agent-1/{command}")
        assert (202, "agent-1", "ready") == (status, answer["name"], answer["state"])
        (message,) = sqs.receive_message(QueueUrl=inbox)["Messages"]
        assert Command(command=command) == Command.decode(message["Body"])


LEVEL = "/v1/agents/agent-1/log-level"


def test_the_level_of_an_agents_log_is_set_for_a_while(aws: Cloud, platform: Api):
    assert 404 == platform("POST", LEVEL, {"level": "debug"})[0]
    beat(aws, "agent-1")
    assert 409 == platform("POST", LEVEL, {"level": "debug"})[0]  # no inbox
    sqs = aws.clients.make("sqs")
    inbox = sqs.create_queue(QueueName="joblane-inbox-agent-1")["QueueUrl"]
    for wanted, for_s in (({"for_s": 60, "reason": "why"}, 60), ({}, 1800)):
        before_ms = int(time.time() * 1000)
        status, answer = platform("POST", LEVEL, {"level": "debug", **wanted})
        assert (202, "agent-1") == (status, answer["name"])
        (message,) = sqs.receive_message(QueueUrl=inbox)["Messages"]
        command = Command.decode(message["Body"])
        assert ("log-level", "debug") == (command.command, command.level)
        until_ms = command.until_ms or 0
        assert before_ms + for_s * 1000 <= until_ms <= time.time() * 1000 + for_s * 1000
        said = f"from level debug on until {rfc3339(until_ms)}, and then from info on"
        assert answer["note"].endswith(said)


@pytest.mark.parametrize(
    ("body", "field"),
    [
        (None, "level"),
        ({}, "level"),
        ({"level": "trace"}, "level"),
        ({"level": "debug", "for_s": 0}, "for_s"),
        ({"level": "debug", "for_s": 86_401}, "for_s"),
        ({"level": "debug", "until": "tomorrow"}, "until"),
    ],
)
def test_a_wrong_level_or_time_is_refused_by_its_field(
    aws: Cloud, platform: Api, body: dict[str, Any] | None, field: str
):
    beat(aws, "agent-1")
    status, problem = platform("POST", LEVEL, body)
    assert (400, field) == (status, problem["errors"][0]["field"])


@pytest.mark.parametrize(
    "body",
    [
        '{"v":1,"command":"log-level"}',
        '{"v":1,"command":"log-level","level":"debug"}',
        '{"v":1,"command":"drain","level":"debug","until_ms":1}',
        '{"v":1,"command":"log-level","level":"trace","until_ms":1}',
    ],
)
def test_a_command_has_a_level_and_an_end_or_neither(body: str):
    with pytest.raises(NotOurs):
        Command.decode(body)


def test_agents_show_their_labels_and_whether_they_take_jobs(aws: Cloud, platform: Api):
    beat(aws, "agent-1")
    entry = platform("GET", "/v1/agents/agent-1")[1]
    assert ({}, "ready") == (entry["labels"], entry["state"])
    now_ms = int(time.time() * 1000)
    row = Heartbeat("agent-1", 0, now_ms, 4, 1, ("default",), "full", "0.1.0")
    aws.agents.beat(replace(row, labels={"group": "web.dev"}, mode="cordoned"))
    for entry in (
        platform("GET", "/v1/agents/agent-1")[1],
        platform("GET", "/v1/agents")[1]["entries"][0],
    ):
        assert ({"group": "web.dev"}, "cordoning") == (entry["labels"], entry["state"])


def test_nobody_there_to_be_told_to_leave(aws: Cloud, platform: Api):
    assert 404 == platform("POST", "/v1/agents/agent-1/drain")[0]
    assert 404 == platform("POST", "/v1/agents/no%20name/drain")[0]
    beat(aws, "agent-1")
    assert 409 == platform("POST", "/v1/agents/agent-1/drain")[0]  # no inbox
    beat(aws, "agent-1", LEASE_S)
    aws.clients.make("sqs").create_queue(QueueName="joblane-inbox-agent-1")
    status, problem = platform("POST", "/v1/agents/agent-1/drain")
    assert (409, True) == (status, "gone" in problem["detail"])


def test_an_agent_shows_whose_jobs_it_runs_and_nothing_of_what_they_do(aws: Cloud, platform: Api):
    aws.jobs.put_new(make_head(JOB, "acme", submission(command=["secret-work"]), 1))
    beat(aws, "agent-1", jobs=(JOB,))
    status, agent = platform("GET", "/v1/agents/agent-1")
    assert 200 == status
    assert [{"id": JOB, "tenant": "acme", "queue": "default", "state": "pending"}] == agent["jobs"]


FACTS: Facts = {"kernel": "6.1", "cpus": 8, "spot": False, "load": 0.5}


def publish(aws: Cloud, agent: str, facts: Facts = FACTS, age_s: int = 0) -> None:
    store = FactStore(aws.clients.make("dynamodb"), DESCRIPTOR.agents_table)
    store.put(agent, facts, int(time.time()) - age_s)


def test_an_agent_shows_all_its_facts_and_a_list_those_asked_for(aws: Cloud, platform: Api):
    for name in ("new", "old", "none"):
        beat(aws, name)
    publish(aws, "new")
    publish(aws, "old", age_s=KEPT_S)
    publish(aws, "gone")
    assert FACTS == platform("GET", "/v1/agents/new")[1]["facts"]
    assert bool is type(platform("GET", "/v1/agents/new")[1]["facts"]["spot"])
    assert {} == platform("GET", "/v1/agents/old")[1]["facts"]
    assert {} == platform("GET", "/v1/agents/none")[1]["facts"]
    # API Gateway joins the values of a repeated parameter.
    page = platform("GET", "/v1/agents", query={"fact": "kernel,spot,rack"})[1]
    assert {"new": {"kernel": "6.1", "spot": False}, "old": {}, "none": {}} == {
        agent["name"]: agent["facts"] for agent in page["entries"]
    }
    page = platform("GET", "/v1/agents")[1]
    assert [{}] * 3 == [agent["facts"] for agent in page["entries"]]


def test_facts_of_a_page_of_agents_are_one_read(aws: Cloud, meter: Meter):
    for number in range(20):
        beat(aws, f"i-{number}")
        publish(aws, f"i-{number}")
    platform = Api(build(configure(Settings), meter.clients_of(aws), time.time), "client-platform")
    query = {"limit": "20", "fact": "kernel"}
    entries = platform("GET", "/v1/agents", query=query)[1]["entries"]
    assert 20 * [{"kernel": "6.1"}] == [agent["facts"] for agent in entries]
    assert 1 == meter.calls["dynamodb.BatchGetItem"]
    meter.reset()
    platform("GET", "/v1/agents", query={"limit": "20"})
    assert 0 == meter.calls["dynamodb.BatchGetItem"]


@pytest.mark.parametrize("fact", ["a b", "", "x" * 64, ",".join("abcdefghijk")])
def test_names_of_facts_are_checked(platform: Api, fact: str):
    status, problem = platform("GET", "/v1/agents", query={"fact": fact})
    assert 400 == status
    assert problem["errors"][0]["field"].startswith("fact")


def test_queues_show_their_lanes_in_serving_order(aws: Cloud, api: Api):
    lane = LaneQueue(aws.clients.make("sqs"), DESCRIPTOR.lane_url("default", "high"))
    lane.send(named(JOB))
    queues = {q["name"]: q["lanes"] for q in api("GET", "/v1/queues")[1]["entries"]}
    assert {"default", "bulk"} == set(queues)
    assert [("high", 1), ("default", 0), ("low", 0)] == [
        (lane["lane"], lane["visible"]) for lane in queues["default"]
    ]


def test_a_tenant_sees_only_the_queues_it_may_use(aws: Cloud):
    other = build(configure(Settings), aws.clients, time.time)
    entries = Api(other, "client-other")("GET", "/v1/queues")[1]["entries"]
    assert ["default"] == [queue["name"] for queue in entries]


def test_the_role_platform_sees_every_queue(platform: Api):
    entries = platform("GET", "/v1/queues")[1]["entries"]
    assert ["default", "bulk"] == [queue["name"] for queue in entries]
    assert 200 == platform("GET", "/v1/queues/bulk/settings")[0]
