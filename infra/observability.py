"""The observability stack: the alarms of `infra.alarms`, and at the level full a dashboard.

Nothing here is called or read by what runs jobs: without it they run all the same.
"""

import re
from collections.abc import Iterator, Mapping
from typing import cast

from aws_cdk import CfnWaitConditionHandle, Duration
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_cloudwatch_actions as actions
from aws_cdk import aws_logs as logs
from aws_cdk import aws_sns as sns
from aws_cdk import aws_ssm as ssm
from constructs import Construct

from infra.alarms import ALARMS, BURNS, Alarm, Burn, Each, Metric, runbook
from infra.dashboard import add_dashboard
from infra.lanes import STACKS, stack_of
from infra.resources import JoblaneStack
from joblane.config import Config
from joblane.contract.public_routes import PUBLIC_ROUTES
from joblane.deployment.metrics import NAMESPACE, PUBLIC_REQUESTS
from joblane.deployment.names import (
    access_log_name,
    api_id_parameter_name,
    iam_api_parameter_name,
)

ONE_STACK = 25
"""Queues up to which one stack holds all alarms. A queue has four, and at the level full three more
for each fleet. More queues are spread over as many stacks as their lanes (docs/decisions/1734)."""

_COMPARISONS = {
    ">": cloudwatch.ComparisonOperator.GREATER_THAN_THRESHOLD,
    ">=": cloudwatch.ComparisonOperator.GREATER_THAN_OR_EQUAL_TO_THRESHOLD,
    "<": cloudwatch.ComparisonOperator.LESS_THAN_THRESHOLD,
}
_MISSING = {
    "breaching": cloudwatch.TreatMissingData.BREACHING,
    "notBreaching": cloudwatch.TreatMissingData.NOT_BREACHING,
}

Names = Mapping[str, str]
"""What the names in braces stand for."""


def stacks(config: Config) -> range:
    """Return the numbers of the stacks of a deployment; empty at the level off."""
    if config.observability.level == "off":
        return range(0)
    return range(1, (STACKS if len(config.queues) > ONE_STACK else 1) + 1)


def find_used(config: Config) -> set[Each]:
    """Return what a deployment has once, or not at all."""
    found: set[Each] = {"deployment"}
    if config.notify_rules is not None:
        found.add("notifier")
    if config.observability.traces is not None:
        found.add("tracer")
    if config.exporting:
        found.add("exporter")
    if config.fleets:
        found.add("scaler")
    if config.iam:
        found.add("iam")
    return found


class ObservabilityStack(JoblaneStack):
    """The alarms of the deployment (the first stack), and those of some or all of its queues."""

    def __init__(self, scope: Construct, config: Config, number: int) -> None:
        name = "observability" if number == 1 else f"observability-{number}"
        super().__init__(scope, config, name, "alarms")
        self._topic = actions.SnsAction(
            sns.Topic.from_topic_arn(self, "Topic", self.resources.topic())
        )
        self._made: dict[str, cloudwatch.Alarm] = {}
        alone = len(stacks(config)) == 1
        self._queues = [q for q in config.queues if alone or stack_of(q) == number]
        self._first = number == 1
        self._api = self._iam_api = ""
        if self._first:
            read = ssm.StringParameter.value_for_string_parameter
            self._api = read(self, api_id_parameter_name(config.name))
            if config.iam:
                self._iam_api = read(self, iam_api_parameter_name(config.name))
        else:
            CfnWaitConditionHandle(self, "Empty")  # a stack needs a resource
        full = config.observability.level == "full"
        for alarm in ALARMS:
            if full or alarm.level == "basic":
                for names in self._each(alarm.each, alarm.of):
                    self._alarm(alarm, names)
        for burn in BURNS if full else ():
            for names in self._each(burn.each):
                self._burn(burn, names)
        if self._first:
            self._count_public_requests()
        if full and self._first:
            add_dashboard(self, self._api)

    def _count_public_requests(self) -> None:
        """Make a metric of the access log (docs/decisions/2123). It is paid for while it counts."""
        name = self.config.name
        routes = [re.sub(r"{[^}]+}", "*", key) for key in PUBLIC_ROUTES]
        is_one = [logs.FilterPattern.string_value("$.route", "=", route) for route in routes]
        # A field whose value is a dimension has to be in the pattern.
        is_ours = logs.FilterPattern.string_value("$.deployment", "=", name)
        logs.MetricFilter(
            self,
            "PublicRequests",
            log_group=logs.LogGroup.from_log_group_name(self, "AccessLog", access_log_name(name)),
            filter_name=f"{name}-public-requests",
            filter_pattern=logs.FilterPattern.all(is_ours, logs.FilterPattern.any(*is_one)),
            metric_namespace=NAMESPACE,
            metric_name=PUBLIC_REQUESTS,
            metric_value="1",
            dimensions={"Deployment": "$.deployment"},
        )

    def _each(self, each: Each, of: tuple[str, ...] = ()) -> Iterator[dict[str, str]]:
        """Yield what the names in braces of an alarm stand for, once for each that it makes."""
        if each in {"queue", "service"}:
            yield from self._of_queues(each)
        elif not self._first:
            return
        elif each == "fleet":
            yield from ({"fleet": fleet} for fleet in self.config.fleets)
        elif each in find_used(self.config):
            yield {}
        elif each == "index":
            for name in of:
                table, _, index = name.partition("/")
                yield {"table": table, "index": index}
        else:
            key: str = each
            yield from ({key: name} for name in of)

    def _of_queues(self, each: Each) -> Iterator[dict[str, str]]:
        for queue in self._queues:
            if each == "queue":
                yield {"queue": queue}
            else:
                fleets = self.config.fleets.items()
                names = [name for name, fleet in fleets if queue in fleet.queues]
                yield from ({"queue": queue, "fleet": name} for name in names)

    def _alarm(self, alarm: Alarm, names: Names) -> None:
        name = _name(alarm.id, names)
        metrics = {key: self._metric(metric, names) for key, metric in alarm.metrics.items()}
        watched: cloudwatch.IMetric = next(iter(metrics.values()))
        if alarm.expression:
            first = next(iter(alarm.metrics.values()))
            watched = cloudwatch.MathExpression(
                expression=alarm.expression,
                using_metrics=cast("dict[str, cloudwatch.IMetric]", metrics),
                label=alarm.id,
                period=Duration.seconds(first.period_s),
            )
        made = cloudwatch.Alarm(
            self,
            name,
            alarm_name=f"{self.config.name}-{name}",
            alarm_description=runbook(alarm.why, alarm.id),
            metric=watched,
            threshold=alarm.threshold,
            comparison_operator=_COMPARISONS[alarm.comparison],
            evaluation_periods=alarm.periods,
            datapoints_to_alarm=alarm.breaching,
            treat_missing_data=_MISSING[alarm.missing],
        )
        if alarm.notifies:
            made.add_alarm_action(self._topic)
        self._made[name] = made

    def _burn(self, burn: Burn, names: Names) -> None:
        name = _name(burn.id, names)
        windows = [self._made[_name(window, names)] for window in burn.windows]
        composite = cloudwatch.CompositeAlarm(
            self,
            name,
            composite_alarm_name=f"{self.config.name}-{name}",
            alarm_description=runbook(burn.why, burn.id),
            alarm_rule=cloudwatch.AlarmRule.all_of(
                *(
                    cloudwatch.AlarmRule.from_alarm(window, cloudwatch.AlarmState.ALARM)
                    for window in windows
                )
            ),
        )
        composite.add_alarm_action(self._topic)

    def _metric(self, metric: Metric, names: Names) -> cloudwatch.Metric:
        known = {
            "name": self.config.name,
            "api": self._api,
            "iam_api": self._iam_api,
            "recovery_machine": self.resources.recovery_machine(),
            **names,
        }
        return cloudwatch.Metric(
            namespace=metric.namespace,
            metric_name=metric.name,
            statistic=metric.statistic,
            period=Duration.seconds(metric.period_s),
            dimensions_map={key: value.format(**known) for key, value in metric.dimensions.items()},
        )


def _name(alarm_id: str, names: Names) -> str:
    """Name of an alarm after the deployment's: its id, and what it is for."""
    return "-".join((alarm_id, *names.values()))
