"""A submission that no live agent can serve is accepted with a warning, at a constant price."""

import time
from dataclasses import replace
from typing import Any

import pytest

from functions.requeue.handler import Settings as RequeueSettings
from functions.requeue.handler import build as build_requeue
from functions.submission.handler import Settings, build
from joblane.aws.clients import Clients
from joblane.aws.errors import AwsSilent
from joblane.aws.fleet.agents import SHARDS
from joblane.aws.queue.settings import SettingsStore
from joblane.deployment.names import table_name
from joblane.fleet.serving import Capabilities, Serving, describe_missing
from joblane.state.lease import LEASE_S, Heartbeat, HostDisk
from tests.support.aws import NAME, Cloud, configure
from tests.support.jobs import submission
from tests.support.meter import Meter
from tests.support.requests import Api

NOBODY = (
    "no agent that serves queue default takes jobs now; the job waits until its fleet starts one"
)


class Scene:
    """The functions submission and requeue on one clock."""

    def __init__(self, aws: Cloud, clients: Clients) -> None:
        self.now = time.time()
        self.began_ms = int(self.now * 1000)
        self.aws = aws
        self.api = Api(build(configure(Settings), clients, lambda: self.now))

    def beat(self, name: str, *lacks: str, **changes: Any) -> None:
        """Let an agent write a heartbeat."""
        now_ms = int(self.now * 1000)
        row = Heartbeat(name, self.began_ms, now_ms, 4, 0, ("default",), "full", "1", labels={})
        self.aws.agents.beat(replace(row, lacks=lacks, **changes))

    def requeue(self) -> None:
        """The call of the next minute."""
        self.now += 60
        requeue = build_requeue(configure(RequeueSettings), self.aws.clients, lambda: self.now)
        requeue.run(lambda: 60.0)

    def submit(self, **fields: Any) -> str | None:
        """Submit a job. Returns the warning."""
        code, job = self.api("POST", "/v1/jobs", {"command": ["true"], **fields})
        assert 202 == code, job
        warning: str | None = job["warning"]
        return warning


@pytest.fixture(name="scene")
def _scene(aws: Cloud, metered: Clients) -> Scene:
    return Scene(aws, metered)


def test_what_no_live_agent_can_give_is_a_warning(scene: Scene):
    scene.requeue()
    scene.beat("laptop", "disk_mb", "memory_mb")
    scene.requeue()
    scene.beat("laptop", "disk_mb", "memory_mb")
    assert scene.submit() is None
    assert (
        "no live agent of queue default can give it disk_mb and memory_mb; the job waits for an "
        "agent whose host can"
    ) == scene.submit(resources={"memory_mb": 600, "disk_mb": 9})
    assert scene.submit(resources={"pids": 9}) is None
    scene.beat("large", "disk_mb")
    scene.now += 10  # what was read of the agents is used for so long
    assert scene.submit(resources={"memory_mb": 600}) is None
    assert "give it disk_mb;" in (scene.submit(resources={"memory_mb": 600, "disk_mb": 9}) or "")


def test_more_memory_or_another_core_than_any_live_agent_has_is_a_warning(scene: Scene):
    scene.requeue()
    scene.beat("small", memory_mb=700, cores=2)
    scene.beat("large", memory_mb=900, cores=1)
    scene.requeue()
    scene.beat("small", memory_mb=700, cores=2)
    scene.beat("large", memory_mb=900, cores=1)
    assert scene.submit(resources={"memory_mb": 900}) is None
    assert scene.submit(resources={"memory_mb": 512, "cores": "1"}) is None
    assert "can give it 901 MB of memory; the" in (scene.submit(resources={"memory_mb": 901}) or "")
    assert "can give it core 2; the job waits" in (scene.submit(resources={"cores": "0-2"}) or "")


def test_a_queue_without_live_agents_is_a_warning(scene: Scene):
    scene.requeue()
    assert NOBODY == scene.submit()
    scene.beat("web-1", mode="cordoned")
    scene.now += 10
    assert NOBODY == scene.submit()
    assert "until somebody starts one" in (scene.submit(queue="bulk") or "")
    scene.beat("web-1")
    scene.now += 10
    assert scene.submit() is None, "it came since requeue looked"


def test_an_agent_that_has_just_gone_is_seen_a_minute_later(scene: Scene):
    scene.beat("web-1")
    scene.requeue()
    assert scene.submit() is None
    scene.now += LEASE_S
    scene.requeue()
    assert NOBODY == scene.submit()


def test_nothing_is_said_of_jobs_that_start_later_or_on_one_agent(scene: Scene):
    scene.beat("laptop", "memory_mb")
    scene.requeue()
    scene.beat("laptop", "memory_mb")
    large = {"memory_mb": 600}
    assert scene.submit(resources=large) is not None
    assert scene.submit(resources=large, run_at="2999-01-01T00:00:00Z") is None
    assert scene.submit(resources=large, target="host:laptop") is None
    assert scene.submit(resources=large, target="_all") is None


def test_each_entry_of_a_batch_has_its_own_warning_and_a_repeated_request_the_same(scene: Scene):
    scene.beat("laptop", "memory_mb", "egress")
    scene.requeue()
    scene.beat("laptop", "memory_mb", "egress")
    jobs = [
        {"command": ["true"]},
        {"command": ["true"], "network": "egress"},
        {"command": []},
        {"command": ["true"], "resources": {"memory_mb": 600}, "concurrency": {"key": ["a"]}},
    ]
    for _ in range(2):
        code, answer = scene.api(
            "POST", "/v1/jobs/batch", {"jobs": jobs}, headers={"idempotency-key": "again"}
        )
        assert 200 == code
        first, second, third, fourth = answer["entries"]
        assert first["job"]["warning"] is None
        assert "give it egress;" in second["job"]["warning"]
        assert 400 == third["status"]
        assert "give it memory_mb;" in fourth["job"]["warning"]


def test_before_requeue_has_looked_nobody_is_warned(scene: Scene, meter: Meter):
    assert scene.submit(resources={"memory_mb": 600}) is None
    assert "dynamodb.Query" not in meter.calls
    scene.requeue()
    scene.now -= 50  # it is asked again after ten seconds while there is none
    assert NOBODY == scene.submit()


def test_what_cannot_be_read_refuses_nothing(scene: Scene, monkeypatch: pytest.MonkeyPatch):
    def away(*_: object) -> None:
        raise AwsSilent(error="dynamodb")

    scene.requeue()
    with monkeypatch.context() as broken:
        broken.setattr(scene.aws.agents.__class__, "sample", away)
        assert scene.submit() is None
    scene.now += 60
    monkeypatch.setattr(SettingsStore, "serving", away)
    assert scene.submit() is None


def test_the_price_does_not_depend_on_how_many_jobs_are_submitted(scene: Scene, meter: Meter):
    """The summary is read each minute; agents each ten seconds, while somebody is warned."""
    scene.beat("laptop", "memory_mb")
    scene.requeue()
    scene.beat("laptop", "memory_mb")
    meter.reset()
    for _ in range(20):
        scene.submit()
    assert (1, 0) == (meter.calls["dynamodb.BatchGetItem"], meter.calls["dynamodb.Query"])
    for _ in range(20):
        assert scene.submit(resources={"memory_mb": 600})
    assert (1, SHARDS) == (meter.calls["dynamodb.BatchGetItem"], meter.calls["dynamodb.Query"])
    scene.now += 10
    scene.submit(resources={"memory_mb": 600})
    assert (1, 2 * SHARDS) == (meter.calls["dynamodb.BatchGetItem"], meter.calls["dynamodb.Query"])


def test_requeue_writes_only_what_has_changed(scene: Scene, meter: Meter, aws: Cloud):
    scene.beat("web-1")
    scene.requeue()
    scene.beat("web-1", running=3)
    settings = SettingsStore(aws.clients.make("dynamodb"), table_name(NAME, "settings"))
    before = settings.serving()
    assert Serving({"default": frozenset({Capabilities()})}) == before
    scene.aws.clients = meter.clients_of(aws)
    scene.requeue()
    assert 0 == meter.calls["dynamodb.UpdateItem"]
    scene.beat("web-1", "egress")
    scene.requeue()
    assert 1 == meter.calls["dynamodb.UpdateItem"]
    assert settings.serving() != before
    assert not settings.put_serving(Serving(), 1), "a later one is there"


@pytest.mark.parametrize(
    ("missing", "fleets", "words"),
    [
        ((), True, None),
        (("a", "b"), True, "can give it a and b;"),
        (None, True, "until its fleet starts one"),
        (None, False, "until somebody starts one"),
    ],
)
def test_a_warning_says_what_the_job_waits_for(
    missing: tuple[str, ...] | None, fleets: bool, words: str | None
):
    said = describe_missing("default", missing, fleets=fleets)
    assert (said is None) if words is None else (said is not None and words in said)


def test_what_all_agents_lack_is_what_each_of_them_lacks():
    def of(*lacks: tuple[str, ...]) -> Serving:
        return Serving({"default": frozenset(Capabilities(frozenset(each)) for each in lacks)})

    def lacked(serving: Serving) -> tuple[str, ...]:
        return serving.lacked("default")

    assert ("a", "b") == lacked(of(("b", "a"), ("a", "b", "c")))
    assert () == lacked(of(("a",), ("b",)))
    assert () == of(("a",)).lacked("bulk")
    spec = submission(resources={"cpus": 1, "disk_mb": 9}, network="egress")
    serving = of(("disk_mb",), ("cpus", "egress"))
    assert (("disk_mb",), None) == (serving.missing("default", spec), serving.missing("bulk", spec))


def test_a_job_that_no_disk_of_an_agent_will_hold_is_accepted_with_a_warning(scene: Scene):
    def beat(most_mb: int) -> None:
        scene.beat("web-1", disk=HostDisk(0, most_mb))
        scene.requeue()
        scene.now += 61
        scene.beat("web-1", disk=HostDisk(0, most_mb))

    large = {"disk_mb": 14_450}
    beat(14_500)
    assert scene.submit(resources=large) is None, "the summary is coarse; the agents are not"
    beat(14_499)
    assert "can give it 14500 MB of disk; the job waits" in (scene.submit(resources=large) or "")
    scene.beat("web-1", "disk_mb", disk=HostDisk(0, 14_499))
    scene.requeue()
    scene.now += 61
    scene.beat("web-1", "disk_mb", disk=HostDisk(0, 14_499))
    assert "can give it disk_mb; the job waits" in (scene.submit(resources=large) or "")


def test_a_disk_for_work_directories_is_asked_for_them_alone():
    row = Heartbeat("web-1", 0, 0, 4, 0, ("default",), "full", "1")
    disks: dict[str, Any] = {"disk": HostDisk(0, 100), "work_disk": HostDisk(0, 9000)}
    able = Capabilities.of(replace(row, **disks))
    spec = submission(resources={"disk_mb": 9000})
    assert () == able.missing(spec, own_mb=100)
    assert ("101 MB of disk",) == able.missing(spec, own_mb=101)
    larger = submission(resources={"disk_mb": 9001})
    assert ("9001 MB of disk for work directories",) == able.missing(larger)
    assert able == Capabilities.decode(able.encode())


def test_the_summary_of_disks_changes_with_a_sixteenth_of_them(
    scene: Scene, meter: Meter, aws: Cloud
):
    scene.beat("web-1", disk=HostDisk(0, 14_400))
    scene.requeue()
    scene.aws.clients = meter.clients_of(aws)
    for most_mb in (14_336, 15_359):
        scene.beat("web-1", disk=HostDisk(0, most_mb))
        scene.requeue()
    assert 0 == meter.calls["dynamodb.UpdateItem"]
    scene.beat("web-1", disk=HostDisk(0, 14_335))
    scene.requeue()
    assert 1 == meter.calls["dynamodb.UpdateItem"]
