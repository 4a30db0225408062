"""Helpers of all stacks: removal policy, log retention, acknowledged cdk-nag rules."""

from aws_cdk import Acknowledgment, RemovalPolicy, Validations
from aws_cdk import aws_logs as logs
from constructs import IConstruct

from joblane.config import Config
from joblane.job.retention import LogDays

_RETENTION: dict[LogDays, logs.RetentionDays] = {
    1: logs.RetentionDays.ONE_DAY,
    3: logs.RetentionDays.THREE_DAYS,
    5: logs.RetentionDays.FIVE_DAYS,
    7: logs.RetentionDays.ONE_WEEK,
    14: logs.RetentionDays.TWO_WEEKS,
    30: logs.RetentionDays.ONE_MONTH,
    60: logs.RetentionDays.TWO_MONTHS,
    90: logs.RetentionDays.THREE_MONTHS,
    120: logs.RetentionDays.FOUR_MONTHS,
    150: logs.RetentionDays.FIVE_MONTHS,
    180: logs.RetentionDays.SIX_MONTHS,
    365: logs.RetentionDays.ONE_YEAR,
    400: logs.RetentionDays.THIRTEEN_MONTHS,
    545: logs.RetentionDays.EIGHTEEN_MONTHS,
    731: logs.RetentionDays.TWO_YEARS,
    1827: logs.RetentionDays.FIVE_YEARS,
    3653: logs.RetentionDays.TEN_YEARS,
}


def removal(config: Config) -> RemovalPolicy:
    """Return the removal policy of data: retain, unless the configuration says destroy."""
    return RemovalPolicy.RETAIN if config.removal == "retain" else RemovalPolicy.DESTROY


def log_retention(config: Config) -> logs.RetentionDays:
    """Return the retention of every log group of this deployment."""
    return _RETENTION[config.retention.logs_days]


def acknowledge(construct: IConstruct, rule: str, reason: str) -> None:
    """Acknowledge a cdk-nag rule for one construct, with the reason."""
    Validations.of(construct).acknowledge(Acknowledgment(id=rule, reason=reason))
