"""What the scaler does for each fleet while it cannot read all that it decides by."""

from dataclasses import replace
from typing import Any

import pytest

from joblane.aws.errors import AwsRefused
from joblane.aws.queue.lanes import LaneQueue, Lanes
from joblane.deployment.names import Lane, fleet_name, lane_name
from joblane.fleet.capacity import GroupState
from tests.support.aws import NAME, PREFIX, Cloud
from tests.support.scaler_scene import MINUTE, Scene


def plan(name: str, *queues: str) -> dict[str, Any]:
    """A fleet."""
    return {"name": name, "queues": queues, "slots": 8, "idle_s": 300}


@pytest.fixture(name="scene")
def _scene(aws: Cloud) -> Scene:
    return Scene(aws)


@pytest.fixture(name="three")
def _three(aws: Cloud) -> Scene:
    """A fleet for each of two queues, and one for both."""
    plans = [plan("first", "default"), plan("second", "bulk"), plan("both", "default", "bulk")]
    return Scene(aws, plans)


def desired(scene: Scene) -> dict[str, int]:
    """The desired capacities of fleets that have been raised."""
    prefix = fleet_name(NAME, "")
    return {
        name.removeprefix(prefix): group.desired
        for name, group in scene.groups.groups.items()
        if group.desired
    }


def delete_lane(scene: Scene, queue: str, lane: Lane = "high") -> None:
    """As of a queue that is in joblane.toml and whose stack is not deployed yet."""
    url = PREFIX + lane_name(NAME, queue, lane)
    scene.aws.clients.make("sqs").delete_queue(QueueUrl=url)


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
        raise AwsRefused({"Error": {"Code": "AccessDenied", "Message": "not allowed"}}, "Read")

    match what:
        case "groups":
            scene.groups.fails = "states"
        case "activities":
            scene.groups.fails = "activities"
        case "lanes":
            monkeypatch.setattr(type(scene.scaler.sources.lanes), "lane", fail)
        case "agents":
            monkeypatch.setattr(type(scene.scaler.sources.agents), "read_all_at_once", fail)
        case "settings":
            monkeypatch.setattr(type(scene.scaler.sources.settings), "get_all", fail)
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


def test_a_queue_that_cannot_be_read_stops_its_own_fleets_only(three: Scene):
    delete_lane(three, "bulk")
    three.submit(100)
    three.submit(100, "bulk")
    assert {"Raised": 2, "Blind": 2} == three.run()
    assert {"first": 10, "both": 3} == desired(three), "13 instances for the 100 that are seen"
    first, second, both = (three.record(name) for name in ("first", "second", "both"))
    assert (None, None, ()) == (first.blind_since_ms, first.blind_reason, first.blind_queues)
    for record in (second, both):
        assert (three.now_ms, ("bulk",)) == (record.blind_since_ms, record.blind_queues)
        assert record.blind_reason is not None
        assert record.blind_reason.startswith("SQS (lanes of queue bulk): ")
        assert "NonExistentQueue" in record.blind_reason
    measured = {line["Fleet"]: line for line in three.lines}
    blind = {name: line["ScalerBlind"] for name, line in measured.items()}
    assert {"first": 0, "second": 1, "both": 1} == blind
    assert "Backlog" in measured["first"]
    assert "Backlog" not in measured["both"], "it would be wrong"


def test_a_fleet_that_sees_again_grows_at_once_and_says_so(three: Scene):
    delete_lane(three, "bulk")
    three.submit(20, "bulk")
    three.run()
    three.now += MINUTE
    three.run()
    assert three.now_ms - 60_000 == three.record("second").blind_since_ms
    name = lane_name(NAME, "bulk", "high")
    three.aws.clients.make("sqs").create_queue(QueueName=name)
    three.now += MINUTE
    assert {"Raised": 1} == three.run()
    assert {"second": 3} == desired(three)
    record = three.record("second")
    assert (None, None, ()) == (record.blind_since_ms, record.blind_reason, record.blind_queues)


def test_a_fleet_with_an_unread_queue_names_no_agent_surplus(
    aws: Cloud, monkeypatch: pytest.MonkeyPatch
):
    scene = Scene(aws, [plan("main", "default", "bulk")])
    real = Lanes.lane

    def lane(lanes: Lanes, queue: str, name: Lane) -> LaneQueue:
        if queue == "bulk":
            raise AwsRefused({"Error": {"Code": "Throttled"}}, "GetQueueAttributes")
        return real(lanes, queue, name)

    def minutes(count: int) -> None:
        for _ in range(count):
            scene.serve(1, 2, 1)
            scene.run()
            scene.now += MINUTE

    with monkeypatch.context() as patched:
        patched.setattr(Lanes, "lane", lane)
        minutes(8)
        assert [] == scene.surplus()
        assert scene.record().roomy_since_ms is None
    minutes(5)
    assert [] == scene.surplus(), "the time before does not count"
    minutes(1)
    assert ["i-0"] == scene.surplus()


def test_since_when_a_queue_waits_is_kept_while_it_cannot_be_read(aws: Cloud):
    scene = Scene(aws, [plan("main", "default", "bulk")])
    scene.submit(1, "bulk")
    scene.run()
    since_ms = scene.now_ms
    delete_lane(scene, "bulk")
    scene.now += MINUTE
    scene.submit(1)
    scene.run()
    assert {"bulk": since_ms, "default": scene.now_ms} == scene.record().waiting


def test_activities_that_cannot_be_read_hold_their_own_fleet_only(three: Scene):
    groups = three.groups.groups
    groups[fleet_name(NAME, "first")] = replace(GroupState(0, 10, 1))  # its instance has not come
    three.groups.fails = f"activities of {fleet_name(NAME, 'first')}"
    three.submit(48)
    three.submit(8, "bulk")
    assert {"Raised": 1, "Blind": 1} == three.run()
    assert {"first": 1, "second": 1} == desired(three), "nobody else gets what is for the first"
    reason = three.record("first").blind_reason
    assert reason is not None
    assert reason.startswith("Auto Scaling (activities of joblane-first): ")
    three.groups.fails = None
    three.now += MINUTE
    three.run()
    assert {"first": 6, "second": 1} == desired(three)


def test_a_fleet_of_which_no_queue_can_be_read_is_left_as_it_is(three: Scene):
    """Not even raised to the instances that have jobs."""
    for queue in ("default", "bulk"):
        delete_lane(three, queue)
    three.serve(8, 8, 8, fleet="both")
    group = fleet_name(NAME, "both")
    three.groups.groups[group] = replace(three.groups.groups[group], desired=1)
    assert {"Blind": 3} == three.run()
    assert {"both": 1} == desired(three)
    reason = three.record("both").blind_reason
    assert reason is not None
    assert reason.endswith("(and of 1 more)")
