"""AWS calls and time of API requests: a batch compared with the minimum, and a page of a list.

`scripts/bench api` counts at the client, against an AWS in this process (moto), and prints the
figures; then the cold starts, as `scripts/bench imports` does. It fails if one misses its bound.

The least for a batch of N jobs: a message for each, ten a request (SQS's limit), and a conditional
put for each. BatchWriteItem takes 25 puts but no condition, so that a repeated call puts jobs back
that run already; TransactWriteItems takes 100 with conditions, and costs twice the write units.
docs/decisions/0202 says more. DynamoDB charges units, not requests.
"""

import math
import sys
import time
from dataclasses import dataclass

from functions.submission.handler import Settings, build
from joblane.aws.clients import Clients
from joblane.formats.ids import first_id
from joblane.job.head import submitted
from joblane.job.spec import Submission
from scripts.benches import imports
from tests.support.aws import FUNCTION_ENVIRONMENT, Cloud, cloud, new_session
from tests.support.meter import Meter
from tests.support.requests import Api

BATCH = 100
FEW, MANY = 100, 10_000
RATIO = 1.3


@dataclass(frozen=True)
class Page:
    """Cost of a page of a list."""

    requests: int
    bytes_read: int


def main() -> int:
    """Print the figures; 1 if one misses its bound."""
    with cloud() as aws:
        batch_is_cheap = _batch(aws)
    pages = {}
    for count in (FEW, MANY):
        with cloud() as aws:
            pages[count] = _page(aws, count)
    for count, page in pages.items():
        print(
            f"list of 10 among {count:>6} jobs: {page.requests} requests, "
            f"{page.bytes_read} bytes read"
        )
    print()
    starts_are_quick = imports.main() == 0
    return 0 if batch_is_cheap and pages[FEW] == pages[MANY] and starts_are_quick else 1


def _metered(aws: Cloud) -> tuple[Meter, Api]:
    meter, session = Meter(), new_session()
    meter.attach(session, aws.clients.make("dynamodb"))
    settings = Settings.model_validate(FUNCTION_ENVIRONMENT)
    return meter, Api(build(settings, Clients(session), time.time))


def _batch(aws: Cloud) -> bool:
    meter, api = _metered(aws)
    status, _ = api("POST", "/v1/jobs/batch", {"jobs": [{"command": ["true"]}] * BATCH})
    if status != 200:  # noqa: PLR2004
        raise SystemExit(f"bench api: the batch was answered {status}")
    asked = sum(meter.calls.values())
    least = math.ceil(BATCH / 10) + BATCH
    print(f"batch of {BATCH} jobs: {asked} requests, {meter.write_units} write units")
    print(f"  least with a condition on each put: {least} requests, ratio {asked / least:.2f}")
    print(f"  by transactions: {math.ceil(BATCH / 10) + 1} requests, {4 * BATCH} write units")
    return asked <= RATIO * least


def _page(aws: Cloud, count: int) -> Page:
    spec = Submission(command=("true",), queue="default")
    began_ms = 1_800_000_000_000
    for number in range(count):
        at_ms = began_ms + (MANY - count + number) * 1000  # the newest ones are the same
        aws.jobs.put_new(submitted(first_id(at_ms), "acme", spec, at_ms))
    meter, api = _metered(aws)
    api("GET", "/v1/jobs", query={"limit": "10"})
    return Page(sum(meter.calls.values()), meter.bytes_read)


if __name__ == "__main__":
    sys.exit(main())
