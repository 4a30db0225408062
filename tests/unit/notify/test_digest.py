"""The daily digest: what it says, of which day, and that each day has one, whoever is killed."""

import json
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError

from functions.dead_letter import handler as dead_letter
from functions.projector import handler as projector
from joblane.errors import Changed
from joblane.formats.times import rfc3339, unix_ms
from joblane.notify.digest import Day, Digest, Place, TimeOfDay, Waiting, latest_day
from joblane.notify.patterns import pattern_of
from joblane.state.lifecycle import State
from joblane.testing.clock import Clock
from joblane.testing.inline import Inline
from joblane.testing.memory.stream import JobsStream
from tests.support.aws import FUNCTION_ENVIRONMENT, NAME
from tests.support.crash_points import Killed, Process
from tests.support.renewal import NOW, Calendar

ROOT = Path(__file__).parents[3]
AT = "08:05"
"""Five minutes after `NOW`, which is 2027-01-15 08:00 UTC."""

QUEUES = json.loads(FUNCTION_ENVIRONMENT["JOBLANE_QUEUES"])

REASONS = [
    "exit code 3 after 4.2 s (attempt 3 of 3)",
    "exit code 4 after 1.0 s (attempt 1 of 1)",
    "no reply of agent i-0123456789abcdef0 until 2026-11-27T07:00:00.000Z",
    "job 01KPX0000000000000000000AA: s3 said status code 503 at 10.0.0.1:443",
    "id 3f2b8c1e-0000-4000-8000-123456789abc, 0xdeadbeef, commit 0a1b2c3d4e",
    "two\n lines\tand 1,000.5 things",
    "\u00e4" * 400,
    "",
]


class Scene(Calendar):
    """A deployment, with what its projector has counted, and a queue that hears its topic."""

    def __init__(self, **environment: str) -> None:
        super().__init__(**environment)
        self.stream = JobsStream(self.memory.tables, Clock(NOW))
        self.process = Process(self.memory)
        self.told = self.aws.clients.make("sqs").create_queue(QueueName="operator")["QueueUrl"]
        self.aws.clients.make("sns").subscribe(
            TopicArn=FUNCTION_ENVIRONMENT["JOBLANE_TOPIC"],
            Protocol="sqs",
            Endpoint="arn:aws:sqs:us-east-1:123456789012:operator",
        )

    def fail(self, state: State, tenant: str = "acme", **fields: Any) -> str:
        """Have a job end failed or dead."""
        job_id = self.submit(tenant, **fields)
        self.end(job_id, state)
        return job_id

    def count(self) -> None:
        """Have the projector count what has happened."""
        settings = projector.Settings.model_validate(self.environment)
        projector.build(settings, self.aws.clients, self.clock).handle(self.stream.take())

    def to_the_time(self, days: int = 0) -> None:
        """Let the time pass until the digest is due."""
        self.clock.now = NOW + 300 + days * 86_400

    def send(self, clients: Any = None) -> bool:
        """Call the function."""
        plan = json.dumps({"at": AT, "tenants": ["acme", "other"], "queues": QUEUES})
        known = {**self.environment, "JOBLANE_DIGEST": plan}
        settings = dead_letter.Settings.model_validate(known)
        made = dead_letter.build_digest(settings, clients or self.aws.clients, self.clock, Inline)
        return made.send()

    def notes(self) -> list[tuple[str, str]]:
        """Subjects and texts that the topic has sent so far."""
        bodies = [json.loads(entry.body) for entry in self.memory.queues.of(self.told).values()]
        return [(note["Subject"], note["Message"]) for note in bodies]


def test_a_digest_says_what_failed_by_queue_and_reason_and_what_waits():
    scene = Scene()
    dead = [scene.fail(State.DEAD) for _ in range(2)]
    failed = scene.fail(State.FAILED, queue="bulk")
    foreign = scene.fail(State.DEAD, "other")
    scene.submit()
    scene.count()
    scene.to_the_time()
    assert scene.send()
    ((subject, text),) = scene.notes()
    assert f"{NAME}: 4 jobs failed or dead in 24 hours" == subject
    assert (
        "4 jobs ended failed or dead in the 24 hours until 2027-01-15T08:04:00.000Z.\n"
        "\n"
        "By tenant and queue:\n"
        "      2  acme  default\n"
        "      1  acme  bulk\n"
        "      1  other  default\n"
        "\n"
        "By reason, the newest job of each:\n"
        f"      2  acme  default  {max(dead)}  dead: as the test wants\n"
        f"      1  acme  bulk  {failed}  failed: as the test wants\n"
        f"      1  other  default  {foreign}  dead: as the test wants\n"
        "\n"
        "Queues in which jobs wait:\n"
        "      1  default  oldest at least 4 min old\n"
        "\n"
        "See more: joblane dlq ls, joblane ls --state failed, joblane why JOB, joblane queues.\n"
    ) == text


def test_nothing_is_sent_on_a_day_that_has_nothing_to_say():
    scene = Scene()
    scene.submit()
    scene.count()
    scene.to_the_time()
    assert not scene.send()
    assert [] == scene.notes()
    assert ("#digest",) not in scene.memory.tables.rows[f"{NAME}-settings"]


def test_a_job_that_waits_for_a_day_is_told_alone():
    scene = Scene()
    scene.submit()
    scene.submit(run_at=rfc3339(scene.now_ms() + 3 * 86_400_000), queue="bulk")
    scene.count()
    scene.to_the_time(1)
    assert scene.send()
    ((subject, text),) = scene.notes()
    assert subject.startswith(f"{NAME}: 0 jobs")
    assert "      1  default  oldest at least 1 d old\n" in text
    assert "By" not in text
    assert "bulk" not in text


def test_a_day_has_one_digest_and_the_next_day_another():
    scene = Scene()
    scene.fail(State.DEAD)
    scene.count()
    scene.to_the_time()
    assert scene.send()
    scene.clock.now += 3600
    assert not scene.send()
    assert 1 == len(scene.notes())
    scene.to_the_time(days=1)
    assert not scene.send(), "the job ended in the day before"
    scene.stream = JobsStream(scene.memory.tables, Clock(scene.clock.now - 120))
    scene.fail(State.DEAD)
    scene.count()
    assert scene.send()
    assert 2 == len(scene.notes())


def test_two_calls_at_once_send_one():
    scene = Scene()
    scene.fail(State.DEAD)
    scene.count()
    scene.to_the_time()
    inner = scene.aws.clients.make("sns").publish
    refused = []

    def publish(**request: Any) -> Any:
        with pytest.raises(Changed) as told:
            scene.send()
        refused.append(told)
        return inner(**request)

    scene.aws.clients.make("sns").publish = publish  # type: ignore[method-assign]
    scene.send()
    assert 1 == len(refused)
    assert 1 == len(scene.notes())


def test_a_call_that_is_killed_after_any_request_leaves_a_digest():
    """A retry of Lambda comes a minute later; only between SNS's answer and `done` are there two.

    The text is the same.
    """
    ends = []

    def is_killed(after: int) -> bool:
        scene = Scene()
        scene.fail(State.DEAD)
        scene.submit()
        scene.count()
        scene.to_the_time()
        scene.process.starts(after)
        killed = False
        try:
            scene.send(scene.process.clients)
        except Killed:
            killed = True
        last = scene.process.calls[-1].kind.split()[0]
        scene.clock.now += 60
        scene.send()
        notes = scene.notes()
        assert 1 == len(set(notes))
        assert len(notes) == (2 if killed and last == "Publish" else 1), last
        ends.append(len(notes))
        scene.clock.now += 60
        assert not scene.send()
        visited.calls = scene.process.calls
        return killed

    visited = Process(Scene().memory)
    visited.visit(is_killed, least=8)
    assert 2 in ends
    assert 1 in ends


@pytest.mark.parametrize(
    ("at", "now", "due"),
    [
        ("07:00", "2026-11-27T07:00:20Z", "2026-11-27T07:00:00Z"),
        ("07:00", "2026-11-27T06:59:30Z", "2026-11-27T07:00:00Z"),  # EventBridge's clock decides
        ("07:00", "2026-11-27T06:58:59Z", "2026-11-26T07:00:00Z"),
        ("00:00", "2026-11-27T23:00:00Z", "2026-11-27T00:00:00Z"),
        ("23:59", "2026-11-27T00:10:00Z", "2026-11-26T23:59:00Z"),
    ],
)
def test_the_day_is_that_of_the_time_that_was_due_last(at: str, now: str, due: str):
    assert unix_ms(due) == latest_day(at, unix_ms(now)).due * 60_000


def test_each_minute_is_in_one_digest():
    first, second = Day(14_400_000), Day(14_400_000 + 1440)
    assert first.end == second.first
    assert 1440 == first.end - first.first


@pytest.mark.parametrize("text", ["7:00", "24:00", "07:60", "07:00Z", ""])
def test_a_time_of_day_has_hours_and_minutes(text: str):
    with pytest.raises(ValidationError):
        TypeAdapter(TimeOfDay).validate_python(text)


def test_a_part_has_forty_lines_and_says_how_many_more():
    failed = {Place("acme", f"q{n:02d}"): 1 for n in range(45)}
    waiting = {f"q{n:02d}": Waiting(1, n) for n in range(3)}
    text = Digest("joblane", Day(2000), failed, [], waiting).text()
    assert "  acme  q39\n         and 5 more\n" in text
    assert "  acme  q40" not in text
    assert "45 jobs of these are in no reason above" in text
    one = replace(Digest("joblane", Day(2000), {Place("a", "b"): 1}, [], {}))
    assert "joblane: 1 job failed or dead in 24 hours" == one.subject


def test_patterns_are_those_of_the_console():
    module = json.dumps(str(ROOT / "console" / "reasons.js"))
    script = (
        f"import {{ patternOf }} from {module};"
        "const all = JSON.parse((await import('node:fs')).readFileSync(0, 'utf8'));"
        "console.log(JSON.stringify(all.map(patternOf)));"
    )
    ran = subprocess.run(
        ["node", "--input-type=module", "--eval", script],
        input=json.dumps(REASONS),
        capture_output=True,
        text=True,
        check=True,
    )
    assert [pattern_of(reason) for reason in REASONS] == json.loads(ran.stdout)
    assert "exit code 3 after # s (attempt # of #)" == pattern_of(REASONS[0])
