"""The sandbox spec of a claimed job. Pure."""

from ec2_agent.sandbox.model import Limits, Spec
from joblane.job.head import Head

GRACE_S = 10.0
"""Seconds between SIGTERM and SIGKILL for a job that is stopped or exceeded its timeout."""


def sandbox_spec(head: Head, grace_s: float) -> Spec:
    """Give what the sandbox is to run for a claimed job; `grace_s` as `GRACE_S`."""
    spec = head.spec
    resources = spec.resources
    return Spec(
        argv=spec.command,
        env={
            **spec.env,
            "JOBLANE_JOB_ID": head.job_id,
            "JOBLANE_ATTEMPT": str(head.attempt),
        },
        limits=Limits(
            memory_mb=resources.memory_mb,
            cpus=resources.cpus,
            pids=resources.pids,
            cores=resources.cores,
            io_bps=resources.io_bps,
            tmp_mb=resources.tmp_mb,
        ),
        network=spec.network,
        timeout_s=spec.timeout_s,
        grace_s=grace_s,
    )
