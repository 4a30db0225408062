"""List prices, US dollars, us-east-1, as of 2026-11: here and nowhere else.

DynamoDB on demand, Standard table class: https://aws.amazon.com/dynamodb/pricing/on-demand/
SQS standard queues up to 100 billion requests a month, and the surcharge of fair queues, which
every request with a `MessageGroupId` pays: https://aws.amazon.com/sqs/pricing/
S3 Standard, requests and the first 50 TB stored: https://aws.amazon.com/s3/pricing/
"""

WRITE_UNIT = 0.625 / 1e6
READ_UNIT = 0.125 / 1e6
SQS_REQUEST = 0.40 / 1e6
FAIR_QUEUE_REQUEST = 0.10 / 1e6
S3_PUT = 5.00 / 1e6
S3_GET = 0.40 / 1e6
S3_MB_MONTH = 0.023 / 1024


def dollars_per_million(  # noqa: PLR0913 - what is paid for
    *,
    write_units: float,
    read_units: float,
    sqs_requests: float,
    s3_puts: float = 0,
    s3_gets: float = 0,
    s3_mb_months: float = 0,
) -> float:
    """What a million jobs cost in the tables, lanes and bucket, each with these amounts."""
    sqs = sqs_requests * (SQS_REQUEST + FAIR_QUEUE_REQUEST)
    s3 = s3_puts * S3_PUT + s3_gets * S3_GET + s3_mb_months * S3_MB_MONTH
    return 1e6 * (write_units * WRITE_UNIT + read_units * READ_UNIT + sqs + s3)
