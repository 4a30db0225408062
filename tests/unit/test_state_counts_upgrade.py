"""Counts of jobs by state beside functions of the version before, in an upgrade."""

from typing import Any

from joblane.aws.usage import UsageStore
from joblane.deployment.names import table_name
from joblane.job.lifecycle import State
from joblane.queue.usage import OPEN_MINUTES
from joblane.service.count import Counting
from tests.support.aws import NAME, Cloud
from tests.support.job_stream import NOON, Stream

MINUTE = NOON // 60
COUNTERS = table_name(NAME, "counters")


def counted(usage: UsageStore, tenant: str = "acme") -> dict[State, int]:
    accounts, _ = usage.accounts(tenant)
    assert accounts is not None
    return accounts.jobs.present.counts.by_state()


class Earlier:
    """The function `projector` of the version before jobs were counted by state."""

    def __init__(self, aws: Cloud) -> None:
        self._client = aws.clients.make("dynamodb")

    def read(self) -> tuple[list[int], list[int], int]:
        """Unpack the account as it does."""
        (row,) = [row for row in self._rows() if row["at_minute"] == {"N": "0"}]
        closed = [int(entry["N"]) for entry in row["closed"]["L"]]
        present = [int(entry["N"]) for entry in row["present"]["L"]]
        assert 4 == len(closed) == len(present)
        return closed, present, int(row["version"]["N"])

    def minutes(self) -> dict[int, list[int]]:
        """Add up the figures of minutes as it does: attributes that begin with b."""
        found: dict[int, list[int]] = {}
        for row in self._rows():
            for name, value in row.items():
                if name.startswith("b"):
                    waiting, output = map(int, value["S"].split())
                    total = found.setdefault(int(row["at_minute"]["N"]), [0, 0])
                    total[0] += waiting
                    total[1] += output
        return found

    def store(self, closed: list[int], present: list[int], version: int) -> None:
        """Store the account as it does: other attributes stay."""
        values = {":closed": closed, ":present": present}
        encoded: dict[str, Any] = {
            name: {"L": [{"N": str(n)} for n in figures]} for name, figures in values.items()
        }
        self._client.update_item(
            TableName=COUNTERS,
            Key={"series": {"S": "acme"}, "at_minute": {"N": "0"}},
            UpdateExpression="SET closed = :closed, present = :present, version = :next",
            ExpressionAttributeValues={**encoded, ":next": {"N": str(version + 1)}},
        )

    def _rows(self) -> list[Any]:
        return self._client.query(
            TableName=COUNTERS,
            KeyConditionExpression="series = :series",
            ExpressionAttributeValues={":series": {"S": "acme"}},
        )["Items"]


def test_the_version_before_reads_what_this_one_writes(projector: Counting, aws: Cloud):
    stream = Stream()
    batch = [stream.write(f"j{n}", State.PENDING) for n in range(3)]
    projector.handle([*batch, stream.write("j0", State.ACTIVE)])
    earlier = Earlier(aws)
    assert {MINUTE: [2, 0]} == earlier.minutes()
    closed, present, version = earlier.read()
    assert (0, MINUTE, 2, 1) == (closed[1], *present[:2], version)


def test_this_version_goes_on_with_the_account_of_the_one_before(
    projector: Counting, usage: UsageStore, aws: Cloud
):
    earlier = Earlier(aws)
    earlier.store([MINUTE - 80, 7, 0, 0], [MINUTE, 7, 0, 0], 0)
    accounts, _ = usage.accounts("acme")
    assert accounts is not None
    assert accounts.counted_ms is None
    projector.handle([Stream().write("a", State.PENDING)])
    assert {State.PENDING: 1} == counted(usage)
    assert 8 == earlier.read()[1][1]


def test_what_the_version_before_stores_in_between_takes_nothing_away(
    projector: Counting, usage: UsageStore, aws: Cloud, now: list[int]
):
    """It closes minutes of the figures; those of the states are closed by this version only."""
    stream, earlier = Stream(), Earlier(aws)
    projector.handle([stream.write(f"j{n}", State.PENDING) for n in range(3)])
    now[0] += (OPEN_MINUTES - 5) * 60
    projector.handle([stream.write("j3", State.PENDING, now[0])])
    _, present, version = earlier.read()
    now[0] += 7 * 60
    minute = now[0] // 60
    earlier.store([minute - OPEN_MINUTES - 1, 3, 0, 0], [minute, *present[1:]], version)
    projector.handle([stream.write("k", State.DEAD, now[0])])
    assert {State.PENDING: 4, State.DEAD: 1} == counted(usage)
    assert 4 == earlier.read()[1][1]


def test_a_batch_that_both_versions_count_counts_once(
    projector: Counting, usage: UsageStore, aws: Cloud
):
    """Its first change is no change of a figure: the version before counts from the second one."""
    stream = Stream()
    stream.write("a", State.DEAD)
    batch = [stream.write("a", State.DISMISSED), stream.write("b", State.PENDING)]
    second = int(batch[1]["dynamodb"]["SequenceNumber"])
    aws.clients.make("dynamodb").put_item(
        TableName=COUNTERS,
        Item={
            "series": {"S": "acme"},
            "at_minute": {"N": str(MINUTE)},
            f"b{second:x}": {"S": "1 0"},
        },
    )
    projector.handle(batch)
    accounts, _ = usage.accounts("acme")
    assert accounts is not None
    assert 1 == accounts.figures.present.waiting
    assert {State.PENDING: 1, State.DISMISSED: 1} == counted(usage)
