"""Batch requests of SQS. Apart from lanes, which know jobs: others send batches as well."""

from typing import Final

BATCH: Final = 10
"""Entries of one request."""
