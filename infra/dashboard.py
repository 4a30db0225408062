"""The dashboard of a deployment, at the level full.

Widgets of Joblane's own metrics search for them by name, so that they show a new queue or fleet
without a deployment. Those of AWS's list what a deployment has: what is quoted in a search means
the whole of a string, so no search finds what only begins with the deployment's name.
"""

from collections.abc import Iterable

from aws_cdk import Stack
from aws_cdk import aws_cloudwatch as cloudwatch

from infra.alarms import INDEXES
from infra.assets import FUNCTIONS
from infra.data import TABLES
from infra.resources import JoblaneStack
from joblane.config import Config
from joblane.deployment.metrics import NAMESPACE
from joblane.deployment.names import (
    LANES,
    access_log_name,
    dead_letter_name,
    iam_log_name,
    lane_name,
    recovery_name,
    table_name,
)

_WIDTH, _HEIGHT = 8, 6
"""Of a widget: three in a row of 24."""

MOST_LINES = 500
"""Metrics of a widget, by CloudWatch. Above it the last ones are left out."""

WITHOUT_LOGS = ("tester",)
"""Functions that may write none; the console's may neither."""

READERS = ("projector", "sequel", "tracer")
"""Functions that read the stream."""


def add_dashboard(stack: JoblaneStack, api: str) -> None:
    """Add the dashboard `<deployment>` to a stack."""
    config, machine = stack.config, stack.resources.recovery_machine()
    cloudwatch.CfnDashboard(
        stack,
        "Dashboard",
        dashboard_name=config.name,
        dashboard_body=Stack.of(stack).to_json_string(
            {"widgets": _widgets(stack.region, config, api, machine)}
        ),
    )


def _lines(metrics: Iterable[list[object]]) -> list[list[object]]:
    return list(metrics)[:MOST_LINES]


def _widgets(
    region: str, config: Config, api: str, recovery_machine: str
) -> list[dict[str, object]]:
    name = config.name
    functions = [f"{name}-{function}" for function in (*FUNCTIONS, "console")]

    def search(schema: str, query: str, statistic: str) -> list[object]:
        expression = f"SEARCH('{{{NAMESPACE},{schema}}} {query}', '{statistic}', 60)"
        return [{"expression": expression}]

    def of_queues(metric: str, statistic: str = "Sum") -> list[object]:
        query = f'MetricName="{metric}" Deployment="{name}"'
        return search("Deployment,Queue", query, statistic)

    def of_fleets(metric: str, statistic: str = "Maximum") -> list[object]:
        query = f'MetricName="{metric}" Deployment="{name}"'
        return search("Deployment,Fleet", query, statistic)

    def of_functions(
        metric: str, statistic: str = "Sum", only: Iterable[str] = functions
    ) -> list[list[object]]:
        return _lines(
            ["AWS/Lambda", metric, "FunctionName", function, {"stat": statistic}]
            for function in only
        )

    def of_sqs(metric: str, queues: Iterable[str]) -> list[list[object]]:
        return _lines(
            ["AWS/SQS", metric, "QueueName", queue, {"stat": "Maximum"}] for queue in queues
        )

    lanes = [lane_name(name, queue, lane) for queue in config.queues for lane in LANES]
    dead = [dead_letter_name(name)]
    tables = [table_name(name, table) for table in TABLES]

    def of_tables(metric: str) -> list[list[object]]:
        return [["AWS/DynamoDB", metric, "TableName", each, {"stat": "Sum"}] for each in tables]

    def of_indexes(metric: str) -> list[list[object]]:
        places = [each.split("/") for each in INDEXES]
        return [
            [
                *("AWS/DynamoDB", metric, "TableName", table_name(name, table)),
                *("GlobalSecondaryIndexName", index, {"stat": "Sum"}),
            ]
            for table, index in places
        ]

    def of_api(metric: str, statistic: str) -> list[object]:
        return ["AWS/ApiGateway", metric, "ApiId", api, {"stat": statistic}]

    started = ["AWS/States", "ExecutionsStarted", "StateMachineArn", recovery_machine]
    logs = [
        access_log_name(name),
        *([iam_log_name(name)] if config.iam else []),
        f"/aws/vendedlogs/states/{recovery_name(name)}",
        *(f"/aws/lambda/{name}-{each}" for each in FUNCTIONS if each not in WITHOUT_LOGS),
    ]
    rows: list[list[tuple[str, list[list[object]]]]] = [
        [
            (
                "Answers without a server error: 99.9 %",
                [of_api("Count", "Sum"), of_api("5xx", "Sum")],
            ),
            ("Starts within 2 s, %", [of_queues("WaitSeconds", "PR(:2)")]),
            ("Starts within 180 s, %", [of_queues("WaitSeconds", "PR(:180)")]),
        ],
        [
            (
                "Jobs a minute by queue, and submissions that keys kept out",
                [
                    *(of_queues(m) for m in ("Submitted", "Started", "Completed", "Failed")),
                    *(of_queues(m) for m in ("Dead", "KeyRejected", "KeyCoalesced")),
                ],
            ),
            ("Wait, p50 and p99 (s)", [of_queues("WaitSeconds", p) for p in ("p50", "p99")]),
            ("Messages that wait in lanes", of_sqs("ApproximateNumberOfMessagesVisible", lanes)),
        ],
        [
            ("Slots", [of_fleets(m) for m in ("SlotsWanted", "SlotsTotal", "SlotsBusy")]),
            ("Agents", [of_fleets(m) for m in ("AgentsAlive", "AgentsInTrouble")]),
            ("Capacity", [of_fleets(m) for m in ("Backlog", "CapacityShort", "ScalerBlind")]),
        ],
        [
            ("API: requests", [of_api(m, "Sum") for m in ("Count", "4xx", "5xx")]),
            ("API: latency (ms)", [of_api("Latency", p) for p in ("p50", "p99")]),
            ("Runs, p50 and p99 (s)", [of_queues("RunSeconds", p) for p in ("p50", "p99")]),
        ],
        [
            ("Functions: errors", of_functions("Errors")),
            ("Functions: throttles", of_functions("Throttles")),
            (
                "Delay of the stream's readers; handover of a key's slot, p50 and p99 (ms)",
                [
                    *of_functions("IteratorAge", "Maximum", [f"{name}-{r}" for r in READERS]),
                    *(of_queues("HandoverMs", p) for p in ("p50", "p99")),
                ],
            ),
        ],
        [
            ("Tables: write units", of_tables("ConsumedWriteCapacityUnits")),
            (
                "Tables and indexes: refused writes",
                [*of_tables("WriteThrottleEvents"), *of_indexes("WriteThrottleEvents")],
            ),
            (
                "Messages in flight, of 120,000 a lane",
                of_sqs("ApproximateNumberOfMessagesNotVisible", lanes),
            ),
        ],
        [
            ("Dead letters", of_sqs("ApproximateNumberOfMessagesVisible", dead)),
            (
                "Executions that test conditions",
                [[*started, {"stat": "Sum"}]],
            ),
            (
                "Log ingestion (bytes)",
                [
                    ["AWS/Logs", "IncomingBytes", "LogGroupName", log, {"stat": "Sum"}]
                    for log in logs
                ],
            ),
        ],
    ]
    return [
        {
            "type": "metric",
            "x": column * _WIDTH,
            "y": row * _HEIGHT,
            "width": _WIDTH,
            "height": _HEIGHT,
            "properties": {
                "title": title,
                "region": region,
                "view": "timeSeries",
                "period": 60,
                "metrics": metrics,
            },
        }
        for row, widgets in enumerate(rows)
        for column, (title, metrics) in enumerate(widgets)
    ]
