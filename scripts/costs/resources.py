"""Counts the resources of a deployment that are billed by the month, in its own templates.

The stacks are synthesized over empty code: without network, account or wheels.
"""

import os
import re
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from joblane.config import Config
from scripts.costs.prices import SECONDS

Template = Mapping[str, Any]


@dataclass(frozen=True)
class Resources:
    """What is there whether jobs run or not."""

    machines: int
    """Clients of the user pool that get tokens of their own."""
    alarms: int
    """Metrics of alarms: one with metric math is charged for each metric that it reads."""
    composite_alarms: int
    log_metrics: int
    """Metrics that CloudWatch Logs makes of log entries."""
    dashboards: int
    letter_readers: int
    """Event source mappings of queues, which Lambda polls all the time."""
    keyed_tables: frozenset[str]
    """Tables whose key is in the account's KMS."""
    tables: Mapping[str, frozenset[str]]
    """Those that each function is given, by the function's name within the deployment."""
    scheduled: Mapping[str, float]
    """Calls a month of the functions that are called on a schedule."""
    batch: int
    """Changes of jobs in a batch for the projector, at most."""
    window_s: float
    """How long a batch is collected."""
    memory_gb: float
    """Memory of the functions."""
    volume_gb: int
    """Size of an instance's volume."""


def count(templates: Iterable[Template], deployment: str) -> Resources:
    """Count what is billed in these templates."""
    named = {
        logical_id: resource
        for template in templates
        for logical_id, resource in template["Resources"].items()
    }
    every = named.values()

    def of(kind: str) -> list[dict[str, Any]]:
        return [each["Properties"] for each in every if each["Type"] == kind]

    keyed = {
        table["TableName"]
        for table in of("AWS::DynamoDB::Table")
        if table.get("SSESpecification", {}).get("SSEEnabled")
    }
    functions = {
        function["FunctionName"].removeprefix(f"{deployment}-"): function
        for function in of("AWS::Lambda::Function")
        if "FunctionName" in function
    }
    clients = of("AWS::Cognito::UserPoolClient")
    mappings = of("AWS::Lambda::EventSourceMapping")
    volumes = {
        device["Ebs"]["VolumeSize"]
        for template in of("AWS::EC2::LaunchTemplate")
        for device in template["LaunchTemplateData"]["BlockDeviceMappings"]
    }
    (stream,) = (
        mapping
        for mapping in mappings
        if "StartingPosition" in mapping and "Projector" in str(mapping["FunctionName"])
    )
    scheduled: defaultdict[str, float] = defaultdict(float)
    for rule in of("AWS::Events::Rule"):
        if (expression := rule.get("ScheduleExpression")) is not None:
            for target in rule["Targets"]:
                function = named[target["Arn"]["Fn::GetAtt"][0]]["Properties"]["FunctionName"]
                scheduled[function.removeprefix(f"{deployment}-")] += _calls(expression)
    return Resources(
        machines=sum("client_credentials" in c.get("AllowedOAuthFlows", ()) for c in clients),
        alarms=sum(map(_metrics, of("AWS::CloudWatch::Alarm"))),
        composite_alarms=len(of("AWS::CloudWatch::CompositeAlarm")),
        log_metrics=len(of("AWS::Logs::MetricFilter")),
        dashboards=len(of("AWS::CloudWatch::Dashboard")),
        letter_readers=sum("StartingPosition" not in mapping for mapping in mappings),
        keyed_tables=frozenset(keyed),
        tables={
            name: frozenset(
                value
                for key, value in function["Environment"]["Variables"].items()
                if key.endswith("_TABLE")
            )
            & keyed
            for name, function in functions.items()
        },
        scheduled=dict(scheduled),
        batch=stream["BatchSize"],
        window_s=stream["MaximumBatchingWindowInSeconds"],
        memory_gb=max(function["MemorySize"] for function in functions.values()) / 1024,
        volume_gb=max(volumes, default=0),
    )


def _metrics(alarm: Mapping[str, Any]) -> int:
    """Metrics that an alarm reads."""
    return sum("MetricStat" in each for each in alarm.get("Metrics", ())) or 1


def _calls(expression: str) -> float:
    """Calls a month of a schedule such as `rate(1 minute)`, or `cron(0 7 * * ? *)`, once a day."""
    if re.fullmatch(r"cron\(\d+ \d+ \* \* \? \*\)", expression):
        return SECONDS / 86_400
    rate = re.fullmatch(r"rate\((\d+) (minute|hour|day)s?\)", expression)
    if rate is None:
        raise ValueError(f"scripts/costs knows no schedule {expression}; add it to _calls")
    return SECONDS / (int(rate[1]) * {"minute": 60, "hour": 3600, "day": 86_400}[rate[2]])


def synthesize_stacks(config: Config) -> Resources:
    """Synthesize the stacks of a deployment and count; takes some seconds."""
    # Before anything imports aws_cdk, which starts Node: ours, and no other that is on PATH.
    os.environ.setdefault("JSII_NODE", str(Path(sys.executable).parent / "node"))
    from tests.infra.synthesis import synthesize  # it imports aws_cdk

    with tempfile.TemporaryDirectory() as folder:
        deployment = synthesize(config, Path(folder))
        return count(deployment.templates.values(), config.name)
