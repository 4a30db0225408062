"""The job type of `tests/support/scenarios.py`, which end-to-end tests push as it stands here."""

from pydantic import BaseModel

from joblane import Job, PermanentError, job_type


class Params(BaseModel):
    """Of `count`."""

    numbers: list[int]
    fail: str = ""


@job_type("scenario-count", items="/numbers", retry={"max_attempts": 2, "backoff_s": [0]})
def count(params: Params, job: Job) -> int:
    """Add numbers."""
    print("counting")
    if params.fail == "once" and job.attempt == 1:
        raise ValueError("not today")
    if params.fail == "for good":
        raise PermanentError("the account is closed")
    job.log.warning("%d numbers", len(params.numbers))
    return sum(params.numbers)
