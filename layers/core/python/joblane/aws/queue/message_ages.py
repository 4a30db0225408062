"""Adapter for CloudWatch: the age of the oldest message of each lane.

SQS reports this figure to CloudWatch only.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mypy_boto3_cloudwatch.client import CloudWatchClient

KEEP_S = 60.0
"""How long an answer is cached. SQS reports once a minute, and a request costs $0.01 for each 1,000
queues (https://aws.amazon.com/cloudwatch/pricing/, 2026-11)."""

LOOK_BACK_S = 300
"""How far back figures are read: a queue unused for hours reports late."""

_AT_ONCE = 500  # CloudWatch's own limit on queries in a GetMetricData


@dataclass(frozen=True, slots=True)
class Age:
    """The age of the oldest message that has not been deleted, including those of running jobs."""

    seconds: int
    at_ms: int
    """When SQS measured it: the beginning of that minute."""


class MessageAges:
    """Reads the ages of all lanes in one request, and caches them for a minute."""

    def __init__(
        self,
        connect: Callable[[], "CloudWatchClient"],
        queues: Sequence[str],
        clock: Callable[[], float],
    ) -> None:
        self._connect = connect
        self._queues = queues
        self._clock = clock
        self._client: CloudWatchClient | None = None
        self._known: Mapping[str, Age] = {}
        self._asked: float | None = None

    def ages(self) -> Mapping[str, Age]:
        """Return ages by SQS queue name, without queues for which CloudWatch has no figure."""
        now = self._clock()
        if self._asked is None or now - self._asked >= KEEP_S:
            self._asked = now
            self._known = self._ask(now)
        return self._known

    def _ask(self, now: float) -> dict[str, Age]:
        self._client = self._client or self._connect()
        found: dict[str, Age] = {}
        for start in range(0, len(self._queues), _AT_ONCE):
            names = self._queues[start : start + _AT_ONCE]
            answer = self._client.get_metric_data(
                MetricDataQueries=[
                    {
                        "Id": f"q{n}",
                        "MetricStat": {
                            "Metric": {
                                "Namespace": "AWS/SQS",
                                "MetricName": "ApproximateAgeOfOldestMessage",
                                "Dimensions": [{"Name": "QueueName", "Value": name}],
                            },
                            "Period": 60,
                            "Stat": "Maximum",
                        },
                    }
                    for n, name in enumerate(names)
                ],
                StartTime=datetime.fromtimestamp(now - LOOK_BACK_S, UTC),
                EndTime=datetime.fromtimestamp(now, UTC),
                ScanBy="TimestampDescending",
            )
            for result in answer["MetricDataResults"]:
                if result["Values"]:
                    at_ms = int(result["Timestamps"][0].timestamp() * 1000)
                    name = names[int(result["Id"].removeprefix("q"))]
                    found[name] = Age(int(result["Values"][0]), at_ms)
        return found
