"""What a line of the export of ended jobs is of. Every cold start of the projector loads this."""

from typing import Literal

RecordKind = Literal["deleted", "ended", "expired"]
"""`ended`: a job has just ended. `expired`: DynamoDB deletes its row, whose retention is over.
`deleted`: somebody deleted it. In this order: of two lines with one end the first one counts."""
