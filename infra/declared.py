"""What joblane.toml declares of queues, fleets and metrics, as JSON for the functions."""

import json

from joblane.config import Config


def queues(config: Config) -> str:
    """JSON of each queue with the tenants that may use it; none means all."""
    return json.dumps({name: list(queue.tenants) for name, queue in config.queues.items()})


def retired(config: Config) -> str:
    """JSON of each retired queue with the one that its jobs move to, or null."""
    return json.dumps(config.retired)


def threads(config: Config) -> str:
    """JSON of each queue with what joblane.toml declares as its threads."""
    return json.dumps({name: queue.threads for name, queue in config.queues.items()})


def deadlines(config: Config) -> str:
    """JSON of each queue that has a default deadline with its seconds."""
    found = {name: queue.deadline_s for name, queue in config.queues.items()}
    return json.dumps({name: seconds for name, seconds in found.items() if seconds is not None})


def maxima(config: Config) -> str:
    """JSON of each queue with the maxima of its fleets."""
    return json.dumps(
        {
            queue: [most.model_dump(exclude_none=True) for most in config.maxima_of(queue)]
            for queue in config.queues
        }
    )


def schedules(config: Config) -> str:
    """JSON of the schedules that joblane.toml declares, by their names."""
    return json.dumps(
        {
            name: {
                "tenant": schedule.tenant,
                "fields": schedule.fields.model_dump(mode="json", exclude_defaults=True),
                "template": schedule.template.model_dump(mode="json", exclude_defaults=True),
            }
            for name, schedule in config.schedules.items()
        },
        sort_keys=True,
    )


def fleets(config: Config) -> str:
    """JSON of the fleets as operators see them."""
    return json.dumps(
        [
            {
                "name": name,
                **fleet.model_dump(
                    mode="json",
                    include={
                        "queues",
                        "instance_types",
                        "architecture",
                        "ami",
                        "packages",
                        "setup",
                        "min_size",
                        "max_size",
                        "price_per_hour",
                    },
                ),
            }
            for name, fleet in config.fleets.items()
        ]
    )


def fleet_plans(config: Config) -> str:
    """JSON of the fleets as the scaler sees them."""
    return json.dumps(
        [
            {
                "name": name,
                "queues": list(fleet.queues),
                "slots": config.slots_of(name),
                "idle_s": None if fleet.idle_s == "never" else fleet.idle_s,
            }
            for name, fleet in config.fleets.items()
        ]
    )


def metrics(config: Config) -> dict[str, str]:
    """Return the variable that has a function write custom metrics; empty if it writes none."""
    return {"JOBLANE_METRICS": "true"} if config.observability.metrics else {}


def alarms(config: Config) -> dict[str, str]:
    """Return the variable that has projector count jobs that fail; empty without alarms."""
    return {"JOBLANE_ALARMS": "true"} if config.observability.alarms else {}


def kicks(config: Config) -> dict[str, str]:
    """Return the variable that has projector call the scaler; empty without fleets."""
    return {"JOBLANE_KICKS": "true"} if config.fleets else {}
