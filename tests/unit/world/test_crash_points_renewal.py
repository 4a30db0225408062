"""The pass of renewal killed after AWS calls that it makes, and then run on.

As test_crash_points_functions.py: a hook tells of the calls. A minute after each kill another run
goes on where the killed one was, and in the end every job has a message and its files.
"""

from typing import Any

from joblane.group.record import PAGE
from joblane.job.head import DATA_DAYS
from joblane.job.renewal import DAY_S
from joblane.state.lifecycle import State
from tests.support.aws import objects
from tests.support.crash_points import NEVER, Killed, Process, kills
from tests.support.renewal import Calendar

LARGE: dict[str, Any] = {"command": ["a", *["x" * 100_000] * 3]}
AGE_DAYS = 198
"""So old that long submissions in the table are to live on."""


class Scene(Calendar):
    """Jobs of two tenants that are due, more than a page, and the members of a group."""

    def __init__(self) -> None:
        super().__init__()
        self.beat("web-1", "web-2")
        file: dict[str, Any] = {"inputs": [{"path": "a", "sha256": self.upload(b"data")}]}
        self.group = self.submit(target="_all", reply_timeout_s=86_400, command=["a" * 5000])
        group = self.aws.job(self.group).group
        assert group is not None
        self.jobs = [group.id_of(number) for number in range(2)]
        for member in self.jobs:
            self.end(member, State.BLOCKED)
        self.jobs += [self.submit(**file), self.submit(**LARGE), self.submit("other")]
        self.long = [self.group, self.submit(command=["a" * 5000])]
        self.jobs += [self.long[1], *self.submit_many(PAGE, queue="bulk")]
        self.forget_messages()
        self.to_a_pass(days=AGE_DAYS)
        self.process = Process(self.memory)
        self.renew = self.function(self.process.clients).renew

    def is_killed(self, after: int) -> bool:
        """Run once, killed after so many calls, or to the end."""
        self.process.starts(after)
        try:
            self.renew(lambda: 60.0)
        except Killed:
            return True
        return False


def test_a_pass_that_is_killed_after_any_call_goes_on():
    whole = Scene()
    assert not whole.is_killed(NEVER)
    check(whole)
    points = kills(whole.process.calls)
    print(f"{len(whole.process.calls)} calls, killed after {points}")
    assert len(points) >= 8
    for point in points:
        scene = Scene()
        assert scene.is_killed(point)
        scene.clock.now += 60
        scene.function().renew(lambda: 60.0)
        check(scene)


def check(scene: Scene) -> None:
    """All is as if nobody had died."""
    assert scene.renewal().tenant is None
    messages = scene.messages()
    assert set(scene.jobs) == messages.keys()
    most = max(len(ages) for ages in messages.values())
    assert most <= 2, "a page that was sent is sent once more at most"
    s3 = scene.aws.clients.make("s3")
    for key in objects(scene.aws):
        written = s3.head_object(Bucket="joblane", Key=key)["LastModified"].timestamp()
        assert scene.clock.now - written <= 60
    rows = scene.memory.tables.rows["joblane-jobs"]
    kept = [item for (_, sk), item in rows.items() if sk.startswith(("DATA", "AGENTS"))]
    assert 4 == len(kept)  # three submissions, one of them abridged, and the roster
    for item in kept:
        assert int(item["expires_at"]["N"]) >= scene.clock.now - 60 + DATA_DAYS * DAY_S
