"""What joblane.toml declares for the functions that submit jobs: `submission`, and `due`."""

import json

from infra.declared import deadlines, maxima, queues, retired
from infra.function import concurrency
from infra.notify import notify_rules
from infra.recovery import fleet_queues
from joblane.config import Config
from joblane.deployment.limits import ADMITTED


def submitting(config: Config) -> dict[str, str]:
    """Variables of the functions that submit jobs."""
    return {
        "JOBLANE_QUEUES": queues(config),
        "JOBLANE_RETIRED": retired(config),
        "JOBLANE_MAXIMA": maxima(config),
        "JOBLANE_FLEET_QUEUES": fleet_queues(config),
        "JOBLANE_WITHOUT_HOST_NETWORK": json.dumps(config.without_host_network),
        "JOBLANE_TENANTS": json.dumps(list(config.tenants)),
        "JOBLANE_LIMITS": config.limits_by_tenant.compact(*ADMITTED, "input_mb_per_job"),
        "JOBLANE_DEFAULT_QUEUE": config.default_queue,
        "JOBLANE_DEFAULT_QUEUES": json.dumps(config.default_queues),
        "JOBLANE_DEADLINES": deadlines(config),
        "JOBLANE_FILTERS": json.dumps(config.filters),
        "JOBLANE_CONCURRENCY": concurrency(config),
        "JOBLANE_NOTIFY": notify_rules(config),
        "JOBLANE_RETENTION": config.retention.model_dump_json(),
    }
