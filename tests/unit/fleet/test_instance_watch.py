"""Instances without an agent are replaced, with a notification and not without bound."""

import json
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from itertools import pairwise

import pytest

from functions.instance_watch.handler import Settings, build
from joblane.aws.errors import AwsRefused
from joblane.aws.fleet.agents import AgentStore, Replacements
from joblane.aws.fleet.auto_scaling import AutoScalingGroup
from joblane.aws.table import ConditionFailed
from joblane.fleet.absence import NO_AGENT
from joblane.service.fleet.instance_watch import InstanceWatch, rest_ms
from joblane.state.lease import Heartbeat
from tests.support.aws import FUNCTION_ENVIRONMENT, Cloud, configure

MINUTE = 60.0
GROUP = "joblane-main"


@dataclass
class FakeGroups:
    """One group; an instance that is replaced is gone, and a new one comes a minute later."""

    instances: list[str]
    replaced: list[str] = field(default_factory=list)
    refused: set[str] = field(default_factory=set)

    def read_all(self) -> list[AutoScalingGroup]:
        """The group as it is now."""
        return [AutoScalingGroup(GROUP, tuple(self.instances))]

    def replace(self, instance: str) -> None:
        """Take an instance for a new one."""
        if instance in self.refused:
            raise AwsRefused({"Error": {"Code": "ValidationError"}}, "SetInstanceHealth")
        self.replaced.append(instance)
        self.instances[self.instances.index(instance)] = f"i-new{len(self.replaced)}"


@dataclass
class Scene:
    """A group whose agents beat, or do not, and the watch that looks every minute."""

    aws: Cloud
    groups: FakeGroups
    log: object
    now: float = 1_800_000_000.0
    told: list[tuple[str, str]] = field(default_factory=list)
    working: Callable[[str], bool] = lambda _instance: False
    """Whether the agent of an instance works."""

    def __post_init__(self) -> None:
        made = build(configure(Settings), self.aws.clients, lambda: self.now)
        publish = lambda subject, text: self.told.append((subject, text))  # noqa: E731
        self.watch = InstanceWatch(
            made.agents,
            self.groups,  # type: ignore[arg-type]
            publish,
            made.clock,
            made.log,
        )

    def minutes(self, count: int, step: int = 1) -> Counter[str]:
        """Let time pass; EventBridge calls the function every `step` minutes."""
        done = Counter[str]()
        for _ in range(0, count, step):
            self.now += step * MINUTE
            for instance in self.groups.instances:
                if self.working(instance):
                    self.beat(instance)
            done += self.watch.run()
        return done

    def beat(self, instance: str) -> None:
        """Write a heartbeat of now."""
        now_ms = int(self.now * 1000)
        self.aws.agents.beat(Heartbeat(instance, 0, now_ms, 8, 0, ("default",), "full", "1"))


@pytest.fixture(name="scene")
def _scene(aws: Cloud) -> Scene:
    return Scene(aws, FakeGroups(["i-0"]), None)


def test_an_instance_is_replaced_ten_minutes_after_it_was_seen_without_an_agent(scene: Scene):
    scene.minutes(10)
    assert [] == scene.groups.replaced
    shown = scene.aws.agents.get("i-0")
    assert shown is not None
    assert (NO_AGENT, False) == (shown.trouble, shown.alive(int(scene.now * 1000)))
    scene.minutes(1)
    assert ["i-0"] == scene.groups.replaced
    ((subject, text),) = scene.told
    assert "1 instance(s) of joblane-main without an agent" in subject
    assert {"i-0": NO_AGENT} == json.loads(text)["replaced"]
    assert "suspend-processes" in json.loads(text)["next"]


def test_why_the_installation_failed_is_in_the_notification_and_ten_minutes_count_from_the_boot(
    scene: Scene,
):
    booted_ms = int(scene.now * 1000)
    trouble = "failed to install its agent: no space left on device"
    row = Heartbeat("i-0", booted_ms, booted_ms, 0, 0, (), "none", "none", (), trouble, 0)
    scene.minutes(4)
    scene.aws.agents.beat(row)  # as boot.sh writes it
    scene.minutes(6)
    assert ["i-0"] == scene.groups.replaced
    assert trouble == json.loads(scene.told[0][1])["replaced"]["i-0"]


def test_agents_that_work_cost_no_write_and_stay(scene: Scene):
    scene.working = lambda _: True
    scene.minutes(1)
    calls: list[str] = []
    scene.aws.emitter()
    client = scene.aws.clients.make("dynamodb")
    client.meta.events.register(
        "before-call.dynamodb.*", lambda model, **_: calls.append(model.name)
    )
    made = build(configure(Settings), scene.aws.clients, lambda: 0.0)
    scene.watch = InstanceWatch(
        made.agents,
        scene.groups,  # type: ignore[arg-type]
        made.publish,
        lambda: scene.now,
        made.log,
    )
    assert +Counter[str]() == +scene.watch.run()
    assert ["BatchGetItem"] == calls
    assert [] == scene.groups.replaced


def test_an_agent_that_stopped_without_a_goodbye_is_replaced(scene: Scene):
    scene.beat("i-0")
    scene.minutes(9)
    assert [] == scene.groups.replaced
    scene.minutes(1)
    assert ["i-0"] == scene.groups.replaced
    assert "its agent has stopped" in scene.told[0][1]


def test_an_agent_that_comes_late_stays(scene: Scene):
    scene.minutes(8)
    scene.working = lambda _: True
    scene.minutes(30)
    assert [] == scene.groups.replaced
    assert [] == scene.told


def test_a_broken_installation_replaces_ever_more_seldom(scene: Scene):
    times = [n for n in range(0, 26 * 60, 10) if scene.minutes(10, step=10)["Replaced"]]
    rests = [later - earlier for earlier, later in pairwise(times)]
    assert sorted(rests) == rests
    assert rests[0] >= 10
    assert 360 == rests[-1]
    assert len(times) == len(scene.told) <= 9


def test_after_a_calm_time_the_next_one_is_replaced_at_once(scene: Scene):
    scene.minutes(60, step=5)
    scene.working = lambda _: True
    scene.minutes(6 * 60, step=30)
    scene.working = lambda _: False
    scene.told.clear()
    scene.minutes(11)
    assert 1 == len(scene.told)
    scene.minutes(13)  # a first rest again, of ten minutes
    assert 2 == len(scene.told)


def test_when_all_agents_are_silent_a_tenth_is_replaced_at_a_time(aws: Cloud):
    scene = Scene(aws, FakeGroups([f"i-{n}" for n in range(30)]), None)
    scene.minutes(11)
    assert 3 == len(scene.groups.replaced)
    assert 30 == json.loads(scene.told[0][1])["instances_without_agent"]
    scene.minutes(9)
    assert 3 == len(scene.groups.replaced)
    scene.minutes(1)
    assert 6 == len(scene.groups.replaced)


def test_one_that_cannot_be_replaced_does_not_keep_others(aws: Cloud):
    scene = Scene(aws, FakeGroups([f"i-{n}" for n in range(30)], refused={"i-0"}), None)
    assert {"Replaced": 2, "Failed": 1} == {
        name: count for name, count in scene.minutes(11).items() if name != "Silent"
    }


class OvertakenStore(AgentStore):
    """Lets another call run as a whole between the read and the write of a replacement."""

    def __init__(self, aws: Cloud, other: Callable[[], object]) -> None:
        super().__init__(aws.clients.make("dynamodb"), FUNCTION_ENVIRONMENT["JOBLANE_AGENTS_TABLE"])
        self.other = other
        self.refused = 0

    def put_replacements(
        self, group: str, count: int, now_ms: int, *, before: Replacements | None
    ) -> None:
        """Write after the other call, and count what is refused."""
        self.other()
        try:
            super().put_replacements(group, count, now_ms, before=before)
        except ConditionFailed:
            self.refused += 1
            raise


@pytest.mark.parametrize(("earlier", "due"), [(0, 11), (1, 22), (2, 42)])
def test_of_two_calls_at_once_only_one_replaces(scene: Scene, earlier: int, due: int):
    """`due` is the minute of the next replacement after so many earlier ones."""
    scene.minutes(due - 1)
    assert earlier == len(scene.groups.replaced)
    scene.now += MINUTE
    other = Scene(scene.aws, FakeGroups([*scene.groups.instances]), None, now=scene.now)
    store = OvertakenStore(scene.aws, other.watch.run)
    scene.groups.replaced.clear()
    scene.told.clear()
    replace(scene.watch, agents=store).run()
    assert 1 == store.refused
    assert ([], 0) == (scene.groups.replaced, len(scene.told))
    assert (1, 1) == (len(other.groups.replaced), len(other.told))


def test_rests_double_up_to_six_hours():
    minutes = [rest_ms(count) // 60_000 for count in range(10)]
    assert [0, 10, 20, 40, 80, 160, 320, 360, 360, 360] == minutes
