from datetime import timedelta

from builds import Sync, sync
from joblane.testing import End, FakeDeployment

ACME = Sync(origin="acme", tickets=[1, 2])


def test_a_lost_instance_costs_no_sync(deployment: FakeDeployment) -> None:
    deployment.fail_next(sync, End(lost=True))

    assert deployment.client().submit(sync, ACME).wait() == 2


def test_a_failed_sync_is_tried_again_after_a_minute(deployment: FakeDeployment) -> None:
    deployment.fail_next(sync, End(exit_code=1, error="the archive is away"))
    job = deployment.client().submit(sync, ACME)

    deployment.run()
    assert job.refresh().state == "retry"
    deployment.advance(timedelta(minutes=2))
    assert (job.refresh().state, job.data.attempt) == ("completed", 2)


def test_a_sync_starts_at_night(deployment: FakeDeployment) -> None:
    at = deployment.now + timedelta(hours=5)
    job = deployment.client().submit(sync, ACME, run_at=at)

    deployment.advance(timedelta(hours=4))
    assert job.refresh().state == "scheduled"
    deployment.advance(timedelta(hours=1))
    assert job.refresh().state == "completed"
