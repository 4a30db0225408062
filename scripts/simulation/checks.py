"""What no run that Joblane scales may show."""

from scripts.simulation.result import Result
from scripts.simulation.scenarios import Scenario

ROOMY = 2.2
"""Slots for each job that runs, that a fleet under an even load may keep: the scaler names surplus
agents while half of the slots are free (`joblane.fleet.surplus`)."""


def violations(result: Result, scenario: Scenario) -> list[str]:
    """Say what a run violates; nothing if all is well."""
    plans = scenario.plan.fleets
    least, slots = sum(plan.min_size for plan in plans), max(plan.threads for plan in plans)
    needed = ROOMY * result.running_late / slots + 2 * len(plans)
    found = {
        "jobs were lost": result.lost,
        "jobs ran twice": result.twice,
        "a fleet was above its maximum": result.above_max,
        "a limit of a queue was exceeded": result.above_limit,
        "instances with jobs were ended": result.busy_ended,
        "desired capacities were raised while SQS could not be read": result.raised_blind,
        "idle instances did not end": max(0, result.instances_end - least),
        "instances too many were kept under an even load": scenario.even
        and max(0, round(result.instances_late - needed)),
    }
    return [f"{what}: {count}" for what, count in found.items() if count]
