"""The function scaler, with a stand-in for Auto Scaling: what it decides, writes and says."""

import json
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from botocore.exceptions import ClientError

from functions.scaler.handler import Settings, build
from joblane.aws.groups import ScalingActivity
from joblane.aws.metrics import Metrics
from joblane.deployment.metrics import OF_FLEETS
from joblane.deployment.names import fleet_name, lane_name
from joblane.fleet.capacity import GroupState
from joblane.fleet.record import SHORT_AFTER_MS, FleetRecord
from joblane.service.scaler import NOTHING_CAME, Scaler, shortage
from tests.support.aws import FUNCTION_ENVIRONMENT, NAME, PREFIX, Cloud
from tests.support.fleet import heartbeat

MINUTE = 60.0
GROUP = fleet_name(NAME, "main")


@dataclass
class FakeGroups:
    """Auto Scaling with one group."""

    groups: dict[str, GroupState]
    tried: list[ScalingActivity] = field(default_factory=list)
    fails: str | None = None
    sets: list[int] = field(default_factory=list)
    reads: int = 0
    between: Callable[[], None] = lambda: None
    """Called before the second read of a call."""

    def states(self, names: Sequence[str]) -> dict[str, GroupState]:
        """DescribeAutoScalingGroups."""
        self._fail("states")
        self.reads += 1
        if self.reads == 2:
            self.between()
        return {name: self.groups[name] for name in names if name in self.groups}

    def activities(self, _name: str, _most: int) -> list[ScalingActivity]:
        """DescribeScalingActivities."""
        self._fail("activities")
        return self.tried

    def set_desired(self, name: str, desired: int) -> None:
        """SetDesiredCapacity."""
        self._fail("set_desired")
        self.sets.append(desired)
        self.groups[name] = replace(self.groups[name], desired=desired)

    def _fail(self, operation: str) -> None:
        if operation == self.fails:
            raise ClientError(
                {"Error": {"Code": "AccessDenied", "Message": "not allowed"}}, operation
            )


class Scene:
    """A deployment with a fleet, and its scaler."""

    def __init__(self, aws: Cloud) -> None:
        self.aws, self.now = aws, 1_800_000_000.0
        self.lines: list[dict[str, Any]] = []
        self.groups = FakeGroups({GROUP: GroupState(0, 10, 0)})
        made = build(Settings.model_validate(FUNCTION_ENVIRONMENT), aws.clients, lambda: self.now)
        metrics = Metrics(True, lambda line: self.lines.append(json.loads(line)))
        self.scaler: Scaler = replace(made, groups=self.groups, metrics=metrics)  # type: ignore[arg-type]

    @property
    def now_ms(self) -> int:
        """Unix milliseconds."""
        return int(self.now * 1000)

    def submit(self, count: int) -> None:
        """Put messages into a lane."""
        url = PREFIX + lane_name(NAME, "default", "default")
        for _ in range(count):
            self.aws.clients.make("sqs").send_message(QueueUrl=url, MessageBody="{}")

    def serve(self, *running: int, threads: int = 8) -> None:
        """Have the group's instances in service, each with an agent with so many jobs."""
        names = [f"i-{n}" for n in range(len(running))]
        before = self.groups.groups[GROUP]
        self.groups.groups[GROUP] = replace(
            before, desired=len(names), instances=dict.fromkeys(names, "InService")
        )
        for name, count in zip(names, running, strict=True):
            old = self.aws.agents.get(name)
            self.aws.agents.beat(
                heartbeat(
                    name,
                    self.now_ms,
                    threads=threads,
                    running=count,
                    left=threads - count,
                    taken={"default": count},
                    surplus_ms=None if old is None else old.surplus_ms,
                )
            )

    def run(self, *, kicked: bool = False) -> Counter[str]:
        """Call it once."""
        self.groups.reads = 0
        return self.scaler.run(kicked=kicked)

    def record(self) -> FleetRecord:
        """What it stored."""
        found = self.scaler.records.read("main")
        assert found is not None
        return found

    def surplus(self) -> list[str]:
        """Agents that are named."""
        return [row.name for row in self.aws.agents.every() if row.surplus_ms is not None]


@pytest.fixture(name="scene")
def _scene(aws: Cloud) -> Scene:
    return Scene(aws)


def test_an_empty_fleet_gets_its_first_instance(scene: Scene):
    scene.submit(1)
    assert {"Raised": 1} == scene.run()
    assert [1] == scene.groups.sets
    record = scene.record()
    assert (1, 1, 1, scene.now_ms) == (
        record.desired,
        record.backlog,
        record.wanted,
        record.raised_ms,
    )
    assert {"default": scene.now_ms} == record.waiting


def test_a_second_call_launches_nothing_for_the_same_jobs(scene: Scene):
    scene.submit(1)
    scene.run()
    scene.now += 5
    assert {} == scene.run(kicked=True)
    assert [1] == scene.groups.sets


def test_jobs_that_fit_free_slots_launch_nothing(scene: Scene):
    scene.serve(2)
    scene.submit(6)
    assert {} == scene.run()


def test_a_paused_queue_launches_nothing(scene: Scene):
    from joblane.queue.settings import UNSET  # noqa: PLC0415

    scene.scaler.settings.put("default", replace(UNSET, run_jobs=False, version=1), over=0)
    scene.submit(20)
    assert {} == scene.run()


def test_a_group_that_grew_meanwhile_is_not_made_smaller(scene: Scene):
    scene.submit(1)

    def operator() -> None:
        scene.groups.groups[GROUP] = replace(scene.groups.groups[GROUP], desired=4)

    scene.groups.between = operator
    assert {} == scene.run()
    assert [] == scene.groups.sets


def test_a_largest_size_that_was_lowered_meanwhile_is_kept(scene: Scene):
    scene.submit(80)

    def operator() -> None:
        scene.groups.groups[GROUP] = replace(scene.groups.groups[GROUP], most=3)

    scene.groups.between = operator
    scene.run()
    assert [3] == scene.groups.sets


def test_what_an_agent_gave_back_meanwhile_is_not_asked_for_again(scene: Scene):
    scene.groups.groups[GROUP] = GroupState(0, 10, 2)
    scene.submit(24)  # one instance more than the two that come

    def agent() -> None:
        scene.groups.groups[GROUP] = replace(scene.groups.groups[GROUP], desired=1)

    scene.groups.between = agent
    scene.run()
    assert [2] == scene.groups.sets


def test_a_fleet_without_a_group_is_left_alone(scene: Scene):
    scene.groups.groups.clear()
    scene.submit(5)
    assert {"NoGroup": 1} == scene.run()
    assert [] == scene.groups.sets
    assert scene.scaler.records.read("main") is None


@pytest.mark.parametrize("what", ["groups", "activities", "lanes", "agents", "settings"])
def test_blind_it_changes_nothing_and_says_so(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, what: str
):
    scene.serve(8)
    scene.submit(20)
    scene.run()
    scene.groups.sets.clear()
    scene.lines.clear()

    def fail(*_: object, **__: object) -> None:
        raise ClientError({"Error": {"Code": "AccessDenied", "Message": "not allowed"}}, "Read")

    match what:
        case "groups":
            scene.groups.fails = "states"
        case "activities":
            scene.groups.fails = "activities"
        case "lanes":
            monkeypatch.setattr(type(scene.scaler.lanes), "lane", fail)
        case "agents":
            monkeypatch.setattr(type(scene.scaler.agents), "every_at_once", fail)
        case "settings":
            monkeypatch.setattr(type(scene.scaler.settings), "get_all", fail)
    scene.submit(100)
    before = scene.now_ms
    for _ in range(2):
        scene.now += MINUTE
        assert {"Blind": 1} == scene.run()
    assert [] == scene.groups.sets
    record = scene.record()
    assert before + 60_000 == record.blind_since_ms
    assert record.blind_reason is not None
    assert "AccessDenied" in record.blind_reason
    assert [1, 1] == [line["ScalerBlind"] for line in scene.lines]
    monkeypatch.undo()
    scene.groups.fails = None
    scene.now += MINUTE
    scene.serve(8)
    assert {"Raised": 1} == scene.run()
    assert (None, None) == (scene.record().blind_since_ms, scene.record().blind_reason)


def test_a_refused_change_is_counted_and_tried_again(scene: Scene):
    scene.submit(1)
    scene.groups.fails = "set_desired"
    assert {"Failed": 1} == scene.run()
    scene.groups.fails = None
    scene.now += MINUTE
    assert {"Raised": 1} == scene.run()


def activity(status: str, at_ms: int, description: str = "Launching") -> ScalingActivity:
    return ScalingActivity(at_ms, status, description, "InsufficientInstanceCapacity")


NO = "InsufficientInstanceCapacity"
SINCE = 10_000_000


@pytest.mark.parametrize(
    ("name", "activities", "after_ms", "expected"),
    [
        ("nothing yet", [], 1, None),
        ("in progress", [activity("InProgress", SINCE)], 1, None),
        ("the newest failed", [activity("Failed", SINCE)], 1, NO),
        (
            "it failed, and the next try has not ended",
            [activity("InProgress", SINCE + 9), activity("Failed", SINCE)],
            1,
            NO,
        ),
        (
            "it failed, and the next try succeeded",
            [activity("Successful", SINCE + 9), activity("Failed", SINCE)],
            1,
            None,
        ),
        ("it failed long ago", [activity("Failed", SINCE - 100_000)], 1, None),
        (
            "an end of an instance is no launch",
            [activity("Successful", SINCE + 9, "Terminating"), activity("Failed", SINCE)],
            1,
            NO,
        ),
        ("nothing came for 15 minutes", [], SHORT_AFTER_MS, NOTHING_CAME),
        (
            "some came, and more are to come",
            [activity("Successful", SINCE + SHORT_AFTER_MS - 5)],
            SHORT_AFTER_MS,
            None,
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_capacity_is_short(
    name: str, activities: list[ScalingActivity], after_ms: int, expected: str | None
):
    assert expected == shortage(activities, SINCE, SINCE + after_ms), name


def test_why_capacity_does_not_come_is_recorded(scene: Scene):
    scene.submit(1)
    scene.run()
    scene.now += MINUTE
    scene.groups.tried = [activity("Failed", scene.now_ms)]
    scene.submit(20)
    scene.run()
    record = scene.record()
    assert (NO, scene.now_ms, "short") == (
        record.short_reason,
        record.short_since_ms,
        record.limit,
    )
    assert [1] == scene.groups.sets


def test_agents_that_a_roomy_fleet_can_spare_are_named(scene: Scene):
    for _ in range(6):
        scene.serve(1, 2, 1)
        done = scene.run()
        scene.now += MINUTE
    assert {"Surplus": 1} == done
    assert ["i-0"] == scene.surplus()
    assert [] == scene.groups.sets


def test_a_kick_names_nobody(scene: Scene):
    for _ in range(6):
        scene.serve(1, 2, 1)
        scene.run(kicked=True)
        scene.now += MINUTE
    assert [] == scene.surplus()


def test_a_busy_minute_begins_the_time_again(scene: Scene):
    for minute in range(8):
        scene.serve(*((8, 8, 8) if minute == 4 else (1, 2, 1)))
        scene.run()
        scene.now += MINUTE
    assert [] == scene.surplus()


def test_every_metric_of_fleets_is_written(scene: Scene):
    scene.serve(2, 0)
    scene.submit(3)
    scene.run()
    (line,) = scene.lines
    assert {name: line[name] for name in OF_FLEETS} == {
        "SlotsWanted": 5,
        "Backlog": 3,
        "SlotsBusy": 2,
        "SlotsTotal": 16,
        "AgentsAlive": 2,
        "AgentsInTrouble": 0,
        "CapacityShort": 0,
        "ScalerBlind": 0,
    }
    assert (NAME, "main") == (line["Deployment"], line["Fleet"])


def test_a_call_of_a_quiet_fleet_writes_nothing(scene: Scene):
    scene.serve(5)
    scene.run()
    first = scene.record()
    scene.now += MINUTE
    scene.serve(5)
    scene.run()
    assert first == scene.record()
