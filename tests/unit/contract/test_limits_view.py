"""The limits that the API shows are those that agents apply."""

from dataclasses import asdict

from hypothesis import given
from hypothesis import strategies as st

from ec2_agent.attempt.preparation import sandbox_spec
from ec2_agent.sandbox.launcher import DEFAULTS
from ec2_agent.sandbox.limits import merge
from joblane.contract.job import job_view
from joblane.job.head import make_head
from joblane.job.spec import Resources
from tests.support.jobs import JOB, submission

RESOURCES = st.builds(
    Resources,
    cpus=st.none() | st.just(2.5),
    memory_mb=st.none() | st.integers(4, 4096),
    pids=st.none() | st.integers(1, 4096),
    cores=st.none() | st.just("0-2"),
    io_bps=st.none() | st.just(4096),
    tmp_mb=st.none() | st.integers(1, 4096),
    disk_mb=st.none() | st.integers(1, 4096),
)


@given(RESOURCES)
def test_the_limits_are_those_that_an_agent_sets(resources: Resources):
    spec = submission().model_copy(update={"resources": resources})
    head = make_head(JOB, "acme", spec, 1_800_000_000_000)
    shown = job_view(head).limits.model_dump()
    assert asdict(merge(DEFAULTS, sandbox_spec(head, 10).limits)) == shown


def test_the_defaults_are_shown_and_not_as_if_they_had_been_asked_for():
    view = job_view(make_head(JOB, "acme", submission(), 1_800_000_000_000))
    assert (512, 1024, 256) == (view.limits.memory_mb, view.limits.pids, view.limits.tmp_mb)
    assert view.resources == Resources()
