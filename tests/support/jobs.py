"""Jobs for tests."""

import json

from joblane.job.spec import Submission

JOB = "01ARZ3NDEKTSV4RRFFQ69G5FAV"


def submission(**fields: object) -> Submission:
    """A submission as the API would have accepted and routed it."""
    return Submission.model_validate_json(
        json.dumps({"command": ["true"], "queue": "default", **fields})
    )
