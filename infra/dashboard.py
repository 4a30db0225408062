"""The dashboard of a deployment, at the level full.

Most widgets search for metrics by their names, so the dashboard does not grow with queues or
functions, and shows a new one without a deployment.
"""

from aws_cdk import Stack
from aws_cdk import aws_cloudwatch as cloudwatch
from constructs import Construct

from infra.resources import JoblaneStack
from joblane.deployment.metrics import NAMESPACE

_WIDTH, _HEIGHT = 8, 6
"""Of a widget: three in a row of 24."""


def add_dashboard(stack: JoblaneStack, api: str) -> None:
    """Add the dashboard `<deployment>` to a stack."""
    cloudwatch.CfnDashboard(
        stack,
        "Dashboard",
        dashboard_name=stack.config.name,
        dashboard_body=Stack.of(stack).to_json_string(
            {"widgets": _widgets(stack, stack.config.name, api)}
        ),
    )


def _widgets(scope: Construct, name: str, api: str) -> list[dict[str, object]]:
    region = Stack.of(scope).region

    def search(schema: str, query: str, statistic: str, period_s: int = 60) -> list[object]:
        expression = f"SEARCH('{{{schema}}} {query}', '{statistic}', {period_s})"
        return [{"expression": expression}]

    def of_queues(metric: str, statistic: str = "Sum") -> list[object]:
        query = f'MetricName="{metric}" Deployment="{name}"'
        return search(f"{NAMESPACE},Deployment,Queue", query, statistic)

    def of_fleets(metric: str, statistic: str = "Maximum") -> list[object]:
        query = f'MetricName="{metric}" Deployment="{name}"'
        return search(f"{NAMESPACE},Deployment,Fleet", query, statistic)

    def of_functions(metric: str, statistic: str = "Sum") -> list[object]:
        query = f'MetricName="{metric}" "{name}-"'
        return search("AWS/Lambda,FunctionName", query, statistic)

    def of_sqs(metric: str, kind: str) -> list[object]:
        query = f'MetricName="{metric}" "{name}-{kind}"'
        return search("AWS/SQS,QueueName", query, "Maximum")

    def of_tables(metric: str) -> list[object]:
        return search("AWS/DynamoDB,TableName", f'MetricName="{metric}" "{name}-"', "Sum")

    def of_api(metric: str, statistic: str) -> list[object]:
        return ["AWS/ApiGateway", metric, "ApiId", api, {"stat": statistic}]

    machine = f'MetricName="ExecutionsStarted" "{name}-recovery"'
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
                "Jobs a minute by queue",
                [of_queues(m) for m in ("Submitted", "Started", "Completed", "Failed", "Dead")],
            ),
            ("Wait, p50 and p99 (s)", [of_queues("WaitSeconds", p) for p in ("p50", "p99")]),
            ("Messages that wait in lanes", [of_sqs("ApproximateNumberOfMessagesVisible", "lane")]),
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
            ("Functions: errors", [of_functions("Errors")]),
            ("Functions: throttles", [of_functions("Throttles")]),
            (
                "Delay of the stream's readers; handover of a key's slot, p50 and p99 (ms)",
                [
                    of_functions("IteratorAge", "Maximum"),
                    *(of_queues("HandoverMs", p) for p in ("p50", "p99")),
                ],
            ),
        ],
        [
            ("Tables: write units", [of_tables("ConsumedWriteCapacityUnits")]),
            ("Tables: refused writes", [of_tables("WriteThrottleEvents")]),
            (
                "Messages in flight, of 120,000 a lane",
                [of_sqs("ApproximateNumberOfMessagesNotVisible", "lane")],
            ),
        ],
        [
            ("Dead letters", [of_sqs("ApproximateNumberOfMessagesVisible", "dlq")]),
            (
                "Executions that test conditions",
                [search("AWS/States,StateMachineArn", machine, "Sum")],
            ),
            (
                "Log ingestion (bytes)",
                [search("AWS/Logs,LogGroupName", f'MetricName="IncomingBytes" "{name}"', "Sum")],
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
