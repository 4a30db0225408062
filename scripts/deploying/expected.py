"""What a deployment will ask of an account, from joblane.toml: names.

Known before the templates are synthesized, which takes half a minute; tests/infra compares.
"""

import re
from itertools import product

from infra.assets import FUNCTIONS
from joblane.config import Config
from joblane.deployment import names

WITHOUT_LOGS = ("console", "tester")
"""Functions whose roles may do nothing, so that they write no log."""


def functions(config: Config) -> set[str]:
    """Return the names of the functions, without the deployment's."""
    found = {*FUNCTIONS, "console"}
    if not config.fleets:
        found -= {"scaler", "instance_watch"}
    if config.notify_rules is None:
        found.discard("notifier")
    if config.observability.traces is None:
        found.discard("tracer")
    if not config.exporting:
        found.discard("exporter")
    return found


def list_expected(config: Config) -> dict[str, set[str]]:
    """Return the names that must be free, by type: no deployment adopts what has one of them."""
    name, own = config.name, functions(config)
    queues = {names.alternate_name(name), names.dead_letter_name(name)}
    queues.add(names.due_name(name))
    queues |= {
        names.lane_name(name, queue, lane) for queue, lane in product(config.queues, names.LANES)
    }
    if config.notify_rules is not None:
        queues |= {names.notify_name(name), names.notify_dead_name(name)}
    if config.observability.traces is not None:
        queues |= {names.traces_name(name), names.traces_dead_name(name)}
    if config.exporting:
        queues |= {names.exports_name(name), names.exports_dead_name(name)}
    return {
        "AWS::Lambda::Function": {f"{name}-{each}" for each in own},
        "AWS::SQS::Queue": queues,
        "AWS::SNS::Topic": {names.topic_name(name)},
        "AWS::Logs::LogGroup": {
            *(f"/aws/lambda/{name}-{each}" for each in own if each not in WITHOUT_LOGS),
            names.access_log_name(name),
            *([names.iam_log_name(name)] if config.iam else []),
            f"/aws/vendedlogs/states/{names.recovery_name(name)}",
        },
        "AWS::AutoScaling::AutoScalingGroup": {
            names.fleet_name(name, each) for each in config.fleets
        },
    }


def stacks(config: Config) -> re.Pattern[str]:
    """Return what the names of the deployment's stacks match."""
    fleets = "".join(f"|fleet-{each}" for each in config.fleets)
    numbered = "(lanes|observability)(-[0-9]+)?"
    others = "data|identity|api|upkeep|network|recovery|projection"
    return re.compile(f"{config.name}-({others}|{numbered}{fleets})")
