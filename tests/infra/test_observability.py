"""The observability stack: every row of the table of alarms, by level, and what it costs."""

import json
import re
from collections import Counter
from fnmatch import fnmatchcase as fnmatch
from pathlib import Path
from typing import Any

import pytest

from infra.alarms import ALARMS, BASIC, BURNS, IDS, INDEXES, Alarm
from infra.assets import FUNCTIONS
from infra.data import TABLES
from infra.lanes import stack_of
from infra.limits import require_deployable
from infra.observability import ONE_STACK, ObservabilityStack, find_used, stacks
from joblane.config import Config
from joblane.config.observability import Level, Observability
from joblane.contract.public_routes import PUBLIC_ROUTES
from joblane.deployment.metrics import (
    DIMENSIONS,
    FAILED_JOBS,
    NAMESPACE,
    OF_FLEETS,
    OF_QUEUES,
    PUBLIC_REQUESTS,
    REFUSED_SCHEDULES,
)
from scripts.costs.month import Month
from scripts.costs.page import IDLE, PAGE, total
from scripts.costs.resources import count
from tests.infra.synthesis import Deployment, new_app, read_templates
from tests.infra.templates import lint
from tests.infra.test_costs import WATCHED
from tests.support.depth import budget

ALARM, COMPOSITE = "AWS::CloudWatch::Alarm", "AWS::CloudWatch::CompositeAlarm"
COMPARISONS = {
    ">": "GreaterThanThreshold",
    ">=": "GreaterThanOrEqualToThreshold",
    "<": "LessThanThreshold",
}


def alarms(deployment: Deployment) -> dict[str, dict[str, Any]]:
    """Alarms by their names after the deployment's."""
    found = deployment.properties(ALARM)
    return {each["AlarmName"].removeprefix("joblane-"): each for each in found}


def row_of(description: str) -> Alarm:
    (row,) = (a for a in ALARMS if description == f"{a.why}. Runbook: {a.id}")
    return row


def test_ids_differ_and_are_headings() -> None:
    assert len(IDS) == len(set(IDS))
    assert all(re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", each) for each in IDS)


@pytest.mark.parametrize("level", ["basic", "full"])
def test_alarms_are_those_of_the_table(
    level: Level, production: Deployment, laptop: Deployment, varied: Deployment
) -> None:
    deployments = [production, laptop] if level == "basic" else [varied]
    for deployment in deployments:
        seen = set()
        for name, alarm in alarms(deployment).items():
            row = row_of(alarm["AlarmDescription"])
            seen.add(row.id)
            assert name.startswith(row.id)
            assert (
                row.threshold,
                COMPARISONS[row.comparison],
                row.periods,
                row.breaching,
                row.missing,
                row.notifies,
            ) == (
                alarm["Threshold"],
                alarm["ComparisonOperator"],
                alarm["EvaluationPeriods"],
                alarm["DatapointsToAlarm"],
                alarm["TreatMissingData"],
                bool(alarm.get("AlarmActions")),
            )
            assert len(row.metrics) == sum("MetricStat" in m for m in alarm.get("Metrics", ())) or (
                not row.expression and "MetricName" in alarm
            )
        wanted = BASIC if level == "basic" else ALARMS
        expected = {
            row.id
            for row in wanted
            if row.each not in {"notifier", "tracer", "exporter", "iam"}
            or row.each in find_used(deployment.config)
        }
        assert expected == seen


def test_what_is_silent_is_an_alarm_only_where_something_must_speak() -> None:
    assert {"requeue-silent", "scaler-silent"} == {
        each.id for each in ALARMS if each.missing == "breaching"
    }


def test_windows_notify_by_their_composite_alarm(varied: Deployment) -> None:
    windows = {window for burn in BURNS for window in burn.windows}
    assert windows == {each.id for each in ALARMS if not each.notifies}
    composites = varied.properties(COMPOSITE)
    assert ["joblane-slo-availability", "joblane-slo-start-default-main"] == [
        each["AlarmName"] for each in composites
    ]
    for burn, each in zip(BURNS, composites, strict=True):
        assert f"{burn.why}. Runbook: {burn.id}" == each["AlarmDescription"]
        assert "joblane-dead-letters" in str(each["AlarmActions"])
        text = json.dumps(each["AlarmRule"])
        assert text.count("ALARM(") == 2
        assert " AND " in text


def test_metrics_have_no_dimension_of_a_job_an_agent_or_a_tenant() -> None:
    for alarm in ALARMS:
        for metric in alarm.metrics.values():
            assert len(metric.dimensions) <= DIMENSIONS
            if metric.namespace == NAMESPACE:
                assert {*metric.dimensions} in (
                    {"Deployment"},
                    {"Deployment", "Queue"},
                    {"Deployment", "Fleet"},
                )


def test_functions_and_tables_of_the_table_exist() -> None:
    for alarm in ALARMS:
        assert set(alarm.of) <= {*FUNCTIONS, *TABLES, *INDEXES}
        if alarm.of:
            assert alarm.each in {"function", "table", "index"}


def test_names_of_functions_and_queues_are_those_of_the_deployment(varied: Deployment) -> None:
    functions = {each["FunctionName"] for each in varied.properties("AWS::Lambda::Function")}
    queues = {each["QueueName"] for each in varied.properties("AWS::SQS::Queue")}
    tables = {each["TableName"] for each in varied.properties("AWS::DynamoDB::Table")}
    known = {"FunctionName": functions, "QueueName": queues, "TableName": tables}
    looked_at = 0
    for alarm in alarms(varied).values():
        for dimension in alarm.get("Dimensions", ()):
            if dimension["Name"] in known:
                looked_at += 1
                assert dimension["Value"] in known[dimension["Name"]]
    assert looked_at > 20


def test_an_age_of_messages_is_not_looked_at() -> None:
    """SQS's age counts messages in flight: a job that runs for hours would be an alarm."""
    names = [m.name for each in ALARMS for m in each.metrics.values()]
    assert "ApproximateAgeOfOldestMessage" not in names


def test_without_a_level_there_is_no_stack(two_tenants: Deployment) -> None:
    assert "joblane-observability" not in two_tenants.templates
    assert not two_tenants.properties(ALARM)
    assert "JOBLANE_METRICS" not in two_tenants.declared("projector")
    assert "JOBLANE_ALARMS" not in two_tenants.declared("projector")


def test_functions_write_metrics_at_the_level_full_only(varied: Deployment, production: Deployment):
    for name in ("projector", "requeue", "sequel"):
        assert "true" == varied.declared(name)["JOBLANE_METRICS"]
        assert "JOBLANE_METRICS" not in production.declared(name)
    assert "true" == production.declared("projector")["JOBLANE_ALARMS"]


def test_the_dashboard_is_of_the_level_full(varied: Deployment, production: Deployment) -> None:
    assert not production.properties("AWS::CloudWatch::Dashboard")
    body = varied.one("AWS::CloudWatch::Dashboard")["DashboardBody"]
    text = "".join(each if isinstance(each, str) else "x" for each in body["Fn::Join"][1])
    widgets = json.loads(text)["widgets"]
    assert 21 == len(widgets)
    assert len(widgets) == len({(each["x"], each["y"]) for each in widgets})
    assert len({each["properties"]["title"] for each in widgets}) == len(widgets)


WRITTEN = {*OF_QUEUES, *OF_FLEETS, FAILED_JOBS, PUBLIC_REQUESTS, REFUSED_SCHEDULES}
DOCUMENTED = {
    "AWS/ApiGateway": {"Count", "4xx", "5xx", "Latency"},
    "AWS/DynamoDB": {"ConsumedWriteCapacityUnits", "WriteThrottleEvents"},
    "AWS/Lambda": {"Duration", "Errors", "Invocations", "IteratorAge", "Throttles"},
    "AWS/Logs": {"IncomingBytes"},
    "AWS/SQS": {
        "ApproximateAgeOfOldestMessage",
        "ApproximateNumberOfMessagesNotVisible",
        "ApproximateNumberOfMessagesVisible",
    },
    "AWS/States": {"ExecutionsStarted", "ExecutionsFailed", "ExecutionsTimedOut"},
}
"""Metrics of AWS's services, from each service's page of metrics in its guide."""

OWN_SEARCH = re.compile(
    r"SEARCH\('\{Joblane,Deployment,(?:Queue|Fleet)\} "
    r"MetricName=\"(\w+)\" Deployment=\"joblane\"', '[\w().:]+', 60\)"
)
"""Whole strings only: what is quoted in a search matches no part of a name."""


def shown(deployment: Deployment) -> tuple[set[str], set[tuple[str, ...]]]:
    """What the widgets show: our metrics that they search for, and others with their dimensions."""
    body = deployment.one("AWS::CloudWatch::Dashboard")["DashboardBody"]
    text = "".join(each if isinstance(each, str) else "x" for each in body["Fn::Join"][1])
    own, others = set(), set()
    for widget in json.loads(text)["widgets"]:
        lines = widget["properties"]["metrics"]
        assert lines, widget
        assert len(lines) <= 500, "CloudWatch shows no more"
        for line in lines:
            if isinstance(line[0], dict):
                found = OWN_SEARCH.fullmatch(line[0]["expression"])
                assert found is not None, line
                own.add(found[1])
            else:
                others.add(tuple(part for part in line if isinstance(part, str)))
    return own, others


def test_every_line_of_the_dashboard_names_a_metric_that_is_there(varied: Deployment) -> None:
    """Ours are written by that name, and AWS's have the names of resources of the templates."""
    own, others = shown(varied)
    assert own <= WRITTEN
    there = {
        "FunctionName": names_of(varied, "AWS::Lambda::Function", "FunctionName"),
        "QueueName": names_of(varied, "AWS::SQS::Queue", "QueueName"),
        "TableName": names_of(varied, "AWS::DynamoDB::Table", "TableName"),
        "LogGroupName": names_of(varied, "AWS::Logs::LogGroup", "LogGroupName"),
    }
    used = dict[str, set[str]]()
    for namespace, metric, dimension, value, *more in others:
        assert metric in DOCUMENTED[namespace]
        used.setdefault(dimension, set()).add(value)
        assert dimension in {*there, "ApiId", "StateMachineArn"}
        assert value in there.get(dimension, {value})
        assert more in ([], ["GlobalSecondaryIndexName", *more[1:]])
    assert there["FunctionName"] == used["FunctionName"]
    assert there["TableName"] == used["TableName"]
    assert {name for name in there["QueueName"] if "-lane-" in name or name.endswith("-dlq")} == (
        used["QueueName"]
    )


def names_of(deployment: Deployment, kind: str, name: str) -> set[str]:
    return {each[name] for each in deployment.properties(kind) if name in each}


def test_every_index_that_jobs_write_to_is_watched(varied: Deployment) -> None:
    indexes = {
        (table["TableName"], index["IndexName"])
        for table in varied.properties("AWS::DynamoDB::Table")
        for index in table.get("GlobalSecondaryIndexes", ())
    }
    watched = {
        tuple(each["Value"] for each in sorted(alarm["Dimensions"], key=lambda d: str(d["Name"])))
        for alarm in varied.properties(ALARM)
        if "index-throttled" in alarm["AlarmName"]
    }
    # Operators' actions write the trail: some a second at most.
    assert {(index, table) for table, index in indexes - {("joblane-audit", "by_job")}} == watched


def test_alarms_name_metrics_that_are_written_or_documented() -> None:
    for alarm in ALARMS:
        for metric in alarm.metrics.values():
            known = WRITTEN if metric.namespace == NAMESPACE else DOCUMENTED[metric.namespace]
            assert metric.name in known, alarm.id


FILTER = re.compile(r'\{ \(\$\.deployment = "joblane"\) && \(\((.+)\)\) \}')
"""The pattern of the access log's metric: entries of this deployment, and some routes."""


def test_requests_without_a_token_are_counted_and_no_others(
    production: Deployment, varied: Deployment
) -> None:
    for deployment in (production, varied):
        counted = deployment.one("AWS::Logs::MetricFilter")
        groups = deployment.resources("AWS::Logs::LogGroup")
        (stage,) = (
            each
            for each in deployment.properties("AWS::ApiGatewayV2::Stage")
            for group in (each["AccessLogSettings"]["DestinationArn"]["Fn::GetAtt"][0],)
            if groups[group]["Properties"]["LogGroupName"] == counted["LogGroupName"]
        )
        logged = json.loads(stage["AccessLogSettings"]["Format"])
        assert ("$context.routeKey", "joblane") == (logged["route"], logged["deployment"])
        found = FILTER.fullmatch(counted["FilterPattern"])
        assert found is not None, counted["FilterPattern"]
        names = re.findall(r'\$\.route = "([^"]+)"', found[1])
        for route in deployment.properties("AWS::ApiGatewayV2::Route"):
            if route["ApiId"] != stage["ApiId"]:
                continue
            is_counted = any(fnmatch(route["RouteKey"], name) for name in names)
            assert is_counted == (route["AuthorizationType"] == "NONE"), route["RouteKey"]
        (made,) = counted["MetricTransformations"]
        (alarm,) = (a for name, a in alarms(deployment).items() if name == "public-requests")
        assert (made["MetricNamespace"], made["MetricName"]) == (
            alarm["Namespace"],
            alarm["MetricName"],
        )
        assert [{"Name": "Deployment", "Value": logged["deployment"]}] == alarm["Dimensions"]
        assert [{"Key": "Deployment", "Value": "$.deployment"}] == made["Dimensions"]
        assert "DefaultValue" not in made, "AWS takes none with dimensions"


def test_the_alarm_comes_before_the_least_rate_is_used_up() -> None:
    """But for routes that take one request a second: what they cost is in the page of costs."""
    (alarm,) = (each for each in ALARMS if each.id == "public-requests")
    (metric,) = alarm.metrics.values()
    rates = [rate.per_second for rate in PUBLIC_ROUTES.values() if rate.per_second > 1]
    assert alarm.threshold / metric.period_s < min(rates)


def test_the_full_stack_is_valid(varied: Deployment) -> None:
    folder = varied.folder / "cdk.out"
    require_deployable(folder)
    assert [] == lint([folder / "joblane-observability.template.json"])


def test_more_queues_than_a_stack_holds_are_spread(tmp_path: Path) -> None:
    """120 queues fit: by default some of them are synthesized, and the others are reckoned."""
    every = [f"q{n:03}" for n in range(120)]
    names = every[: budget(40, 120)]
    config = Config.model_validate(
        {
            "tenants": {"main": {}},
            "default_queue": "q000",
            "queues": {name: {} for name in names},
            "fleets": {f"f{n}": {"queues": names[n : n + 30]} for n in range(0, len(names), 30)},
            "observability": {"level": "full"},
        }
    )
    assert [1, 2, 3, 4] == list(stacks(config))
    app = new_app(tmp_path)
    for number in stacks(config):
        ObservabilityStack(app, config, number)
    app.synth()
    require_deployable(tmp_path)
    deployment = Deployment(config, tmp_path, dict(read_templates(tmp_path)))
    made = [each["AlarmName"] for each in deployment.properties(ALARM)]
    assert len(made) == len(set(made))
    assert len(names) == sum("high-lane-waits" in each for each in made)
    here, all_of_them = (Counter(map(stack_of, queues)) for queues in (names, every))
    sizes = {
        number: len(deployment.templates[f"joblane-{name}"]["Resources"])
        for number in stacks(config)
        for name in ("observability" if number == 1 else f"observability-{number}",)
    }
    each = max(sizes[number] / here[number] for number in sizes if number > 1)  # of a queue
    for number, size in sizes.items():
        assert size + each * (all_of_them[number] - here[number]) <= 500
    few = config.model_copy(update={"queues": dict([*config.queues.items()][:ONE_STACK])})
    assert [1] == list(stacks(few))


def test_the_level_full_costs_what_the_page_says(production: Deployment, tmp_path: Path) -> None:
    """The other stacks have none of it."""
    full = production.config.model_copy(update={"observability": Observability(level="full")})
    app = new_app(tmp_path)
    ObservabilityStack(app, full, 1)
    app.synth()
    templates = {**production.templates, **dict(read_templates(tmp_path))}
    has = count(templates.values(), "joblane")
    lines = [line for line in Month(full, has, IDLE).lines() if line.what in WATCHED]
    said = re.search(r"full`[^$]*\$(\d+)", PAGE.read_text(encoding="utf-8"))
    assert said is not None
    assert said[1] == f"{total(lines):.0f}"
