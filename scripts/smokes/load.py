"""The step with many jobs a second: all of them end, and what was throttled is reported."""

import asyncio
import secrets
import time
from collections import Counter
from datetime import UTC, datetime, timedelta

from joblane import AsyncClient, JoblaneError
from joblane.client.errors import ApiError
from joblane.state.lifecycle import ENDED, State
from scripts.smokes.runner import Failure
from scripts.smokes.site import Load, Site, wait_until

THROTTLED = (429, 503)
"""By the stage's rate limit, or for want of concurrency, of which a new account has 10."""

METRICS = (
    ("AWS/Lambda", "Throttles", "FunctionName", ("submission", "projector")),
    ("AWS/DynamoDB", "WriteThrottleEvents", "TableName", ("jobs", "agents", "counters", "output")),
    ("AWS/DynamoDB", "ReadThrottleEvents", "TableName", ("jobs", "agents", "counters", "output")),
)
"""Namespace, metric, dimension, and the functions or tables without the deployment's name."""

METRICS_S = 180
"""CloudWatch is minutes late; after this the report takes what is there."""


def run_sustained(site: Site) -> str:
    """Submit at a constant rate; every job that was accepted ends well."""
    label = f"load-{secrets.token_hex(4)}"
    began = datetime.now(UTC)
    answers = asyncio.run(_submit(site, site.load, label))
    accepted = answers.pop("accepted", 0)
    throttles = {status: answers.pop(str(status), 0) for status in THROTTLED}
    if answers or not accepted:
        raise Failure(f"{accepted} submissions were accepted; of the others: {dict(answers)}")
    completed = _wait_completed(site, label, accepted)
    if completed != accepted:
        raise Failure(f"of {accepted} jobs with the label smoke={label} {completed} completed")
    took = (datetime.now(UTC) - began).total_seconds()
    said = ", ".join(f"{count} answered {status}" for status, count in throttles.items())
    inside = "" if site.local else f"; throttles: {read_throttles(site, began, accepted)}"
    return f"{accepted} jobs in {took:.0f} s, {said}{inside}"


async def _submit(site: Site, load: Load, label: str) -> Counter[str]:
    """Submit jobs, each at its time, and count the answers."""
    found: Counter[str] = Counter()
    first = time.monotonic()

    async def one(client: AsyncClient, number: int) -> None:
        await asyncio.sleep(first + number / load.rate - time.monotonic())
        try:
            await client.submit(["true"], labels={"smoke": label})
        except JoblaneError as error:
            status = error.status if isinstance(error, ApiError) else 0
            found[str(status) if status in THROTTLED else f"{type(error).__name__}: {error}"] += 1
        else:
            found["accepted"] += 1

    async with AsyncClient(site.url, site.token()) as client, asyncio.TaskGroup() as group:
        for number in range(load.rate * load.seconds):
            group.create_task(one(client, number))
    return found


def _wait_completed(site: Site, label: str, accepted: int) -> int:
    """Wait until no job with this label is unfinished; returns how many completed."""
    mine = f"smoke={label}"
    unfinished = [state.value for state in State if state not in ENDED]
    with site.client() as client:

        def over() -> bool:
            return not any(client.list(1, label=mine, state=unfinished))

        wait_until(f"{accepted} jobs end", over, site.patience_s + accepted / 5)
        return sum(1 for _ in client.list(label=mine, state="completed"))


def read_throttles(site: Site, began: datetime, accepted: int) -> str:
    """Return what CloudWatch has of throttles since `began`, once it knows of all submissions."""
    cloudwatch = site.aws("cloudwatch")

    def total(namespace: str, metric: str, dimension: str, name: str) -> float:
        answer = cloudwatch.get_metric_statistics(
            Namespace=namespace,
            MetricName=metric,
            Dimensions=[{"Name": dimension, "Value": f"{site.name}-{name}"}],
            StartTime=began - timedelta(minutes=1),
            EndTime=datetime.now(UTC) + timedelta(minutes=1),
            Period=60,
            Statistics=["Sum"],
        )
        return float(sum(point["Sum"] for point in answer["Datapoints"]))

    def is_known() -> bool:
        return total("AWS/Lambda", "Invocations", "FunctionName", "submission") >= accepted

    late = ""
    try:
        wait_until("CloudWatch knows of all submissions", is_known, METRICS_S)
    except TimeoutError:
        late = " (CloudWatch does not know of all submissions yet)"
    found = {
        f"{metric} of {name}": total(namespace, metric, dimension, name)
        for namespace, metric, dimension, names in METRICS
        for name in names
    }
    seen = [f"{what} {count:.0f}" for what, count in found.items() if count]
    return f"{', '.join(seen) or 'none'}{late}"
