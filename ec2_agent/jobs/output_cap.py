"""How much output of an attempt is stored. Pure."""

from dataclasses import dataclass

from ec2_agent.sandbox.disk.space import KEEP_BYTES
from ec2_agent.shim.log import CAP_BYTES, CAP_MARK

MB = 1 << 20


@dataclass(frozen=True, slots=True)
class OutputCap:
    """The cap of one attempt, as its shim gets it."""

    cap: int
    """Bytes."""
    mark: str
    """What the output says at the cap."""
    keep: int = KEEP_BYTES
    """Bytes that stay free on the disk: output that would take them is not stored."""


def output_cap(written: int, per_job_mb: int) -> OutputCap:
    """Return the cap of a job's next attempt: the smaller one of the attempt's and the job's.

    `written` are the bytes of output that earlier attempts have stored, `per_job_mb` the limit
    `output_mb_per_job` of the job's tenant.
    """
    left = max(0, per_job_mb * MB - written)
    if left >= CAP_BYTES:
        return OutputCap(CAP_BYTES, CAP_MARK)
    mark = f"output beyond {per_job_mb} MB in all attempts of a job is dropped: output_mb_per_job"
    return OutputCap(left, mark)
