"""List prices of AWS: US dollars, us-east-1, first tier, without free tiers. Here and nowhere else.

Used by scripts/cost and its page (docs/explanation/costs.md), by tests/unit/job/test_cost.py, and
by what compares the places of output (scripts/bench output, decision 1201). Where the product
decides by a price it has a constant of its own, which a test compares with this table.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date

AS_OF = date(2026, 11, 22)
"""When the prices were last compared with their sources."""

REGION = "us-east-1"

HOURS = 730
"""Hours in a month, as AWS's own calculator counts them."""

SECONDS = HOURS * 3600

DAYS = HOURS / 24

GB = 1 << 30


@dataclass(frozen=True)
class Price:
    """What an amount of something costs."""

    what: str
    dollars: float
    amount: float
    unit: str
    source: str

    def of(self, count: float) -> float:
        """Return the dollars for this many units."""
        return count * self.dollars / self.amount


_DYNAMODB = "https://aws.amazon.com/dynamodb/pricing/on-demand/"
WRITE_UNIT = Price("DynamoDB write request unit, Standard class", 0.625, 1e6, "units", _DYNAMODB)
READ_UNIT = Price("DynamoDB read request unit", 0.125, 1e6, "units", _DYNAMODB)
TABLE_GB = Price("DynamoDB storage", 0.25, 1, "GB-month", _DYNAMODB)
BACKUP_GB = Price("DynamoDB point-in-time recovery", 0.20, 1, "GB-month", _DYNAMODB)

_SQS = "https://aws.amazon.com/sqs/pricing/"
SQS_REQUEST = Price("SQS request, standard queue", 0.40, 1e6, "requests", _SQS)
FAIR_QUEUE_REQUEST = Price(
    "SQS fair queues, added to requests of jobs' messages", 0.10, 1e6, "requests", _SQS
)

_S3 = "https://aws.amazon.com/s3/pricing/"
S3_PUT = Price("S3 PUT", 5.00, 1e6, "requests", _S3)
S3_GET = Price("S3 GET", 0.40, 1e6, "requests", _S3)
S3_GB = Price("S3 Standard storage", 0.023, 1, "GB-month", _S3)

_LAMBDA = "https://aws.amazon.com/lambda/pricing/"
LAMBDA_CALL = Price("Lambda request", 0.20, 1e6, "requests", _LAMBDA)
LAMBDA_GB_S = {
    "arm64": Price("Lambda duration, arm64", 0.0000133334, 1, "GB-s", _LAMBDA),
    "x86_64": Price("Lambda duration, x86_64", 0.0000166667, 1, "GB-s", _LAMBDA),
}

API_REQUEST = Price(
    "API Gateway request, HTTP API",
    1.00,
    1e6,
    "requests",
    "https://aws.amazon.com/api-gateway/pricing/",
)
TRANSITION = Price(
    "Step Functions transition",
    25.00,
    1e6,
    "transitions",
    "https://aws.amazon.com/step-functions/pricing/",
)
KMS_REQUEST = Price("KMS request", 0.03, 1e4, "requests", "https://aws.amazon.com/kms/pricing/")

_CLOUDWATCH = "https://aws.amazon.com/cloudwatch/pricing/"
LOG_GB = Price("CloudWatch Logs ingestion", 0.50, 1, "GB", _CLOUDWATCH)
LOG_GB_MONTH = Price("CloudWatch Logs storage", 0.03, 1, "GB-month", _CLOUDWATCH)
METRIC = Price("CloudWatch custom metric", 0.30, 1, "metric-month", _CLOUDWATCH)
ALARM = Price("CloudWatch alarm, for each of its metrics", 0.10, 1, "metric-month", _CLOUDWATCH)
COMPOSITE_ALARM = Price("CloudWatch composite alarm", 0.50, 1, "alarm-month", _CLOUDWATCH)
DASHBOARD = Price("CloudWatch dashboard", 3.00, 1, "dashboard-month", _CLOUDWATCH)

_COGNITO = "https://aws.amazon.com/cognito/pricing/"
MACHINE_CLIENT = Price("Cognito machine client", 6.00, 1, "client-month", _COGNITO)
MACHINE_TOKEN = Price("Cognito token of a machine", 2.25, 1000, "tokens", _COGNITO)

TRANSFER_GB = Price(
    "data transfer to the internet",
    0.09,
    1,
    "GB",
    "https://aws.amazon.com/ec2/pricing/on-demand/#Data_Transfer",
)
PUBLIC_IPV4 = Price("public IPv4 address", 0.005, 1, "hours", "https://aws.amazon.com/vpc/pricing/")
VOLUME_GB = Price("EBS volume, gp3", 0.08, 1, "GB-month", "https://aws.amazon.com/ebs/pricing/")

ON_DEMAND = "https://aws.amazon.com/ec2/pricing/on-demand/"
LARGE = {
    "c6g": 0.068,
    "c7g": 0.0725,
    "m6g": 0.077,
    "m7g": 0.0816,
    "r6g": 0.1008,
    "r7g": 0.1071,
    "t4g": 0.0672,
    "c6i": 0.085,
    "c7i": 0.08925,
    "m6i": 0.096,
    "m7i": 0.1008,
    "r6i": 0.126,
    "r7i": 0.1323,
}
"""Dollars an hour of the size `large` of a family, Linux, on demand (ON_DEMAND)."""

_SIZES = {"nano": 1 / 16, "micro": 1 / 8, "small": 1 / 4, "medium": 1 / 2, "large": 1, "xlarge": 2}


def instance_hour(instance_type: str) -> Price | None:
    """Return the price of an instance; None for a family or size that is not in the table.

    Within a family AWS's prices are in proportion to the size.
    """
    family, _, size = instance_type.partition(".")
    times = size.removesuffix("xlarge")
    factor = 2.0 * int(times) if times.isdecimal() else _SIZES.get(size)
    if family not in LARGE or factor is None:
        return None
    return Price(f"EC2 {instance_type}, on demand", LARGE[family] * factor, 1, "hours", ON_DEMAND)


def table() -> Iterator[Price]:
    """Yield every price but those of instances."""
    for value in globals().values():
        if isinstance(value, Price):
            yield value
    yield from LAMBDA_GB_S.values()


def dollars_per_million(
    *,
    write_units: float,
    read_units: float,
    sqs_requests: float,
    s3_puts: float = 0,
    s3_gets: float = 0,
    s3_gb_months: float = 0,
) -> float:
    """Return what a million jobs cost in the tables, lanes and bucket, each with these amounts.

    Every request to a lane pays the surcharge of fair queues.
    """
    each = (
        WRITE_UNIT.of(write_units),
        READ_UNIT.of(read_units),
        SQS_REQUEST.of(sqs_requests),
        FAIR_QUEUE_REQUEST.of(sqs_requests),
        S3_PUT.of(s3_puts),
        S3_GET.of(s3_gets),
        S3_GB.of(s3_gb_months),
    )
    return 1e6 * sum(each)
