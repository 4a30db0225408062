"""List prices, US dollars, us-east-1, as of 2026-11: here and nowhere else.

DynamoDB on demand, Standard table class: https://aws.amazon.com/dynamodb/pricing/on-demand/
SQS standard queues up to 100 billion requests a month, and the surcharge of fair queues, which
every request with a `MessageGroupId` pays: https://aws.amazon.com/sqs/pricing/
"""

WRITE_UNIT = 0.625 / 1e6
READ_UNIT = 0.125 / 1e6
SQS_REQUEST = 0.40 / 1e6
FAIR_QUEUE_REQUEST = 0.10 / 1e6


def dollars_per_million(*, write_units: float, read_units: float, sqs_requests: float) -> float:
    """What a million jobs cost in the tables and lanes, each with these amounts."""
    sqs = sqs_requests * (SQS_REQUEST + FAIR_QUEUE_REQUEST)
    return 1e6 * (write_units * WRITE_UNIT + read_units * READ_UNIT + sqs)
