import pytest

from builds import Sync, sync
from joblane import JobFailedError, RequestError
from joblane.testing import FakeDeployment


def test_all_tickets_are_copied(deployment: FakeDeployment) -> None:
    job = deployment.client().submit(sync, Sync(origin="acme", tickets=[1, 2]))

    assert job.wait() == 2
    assert [record.text for record in job.logs()] == ["INFO copy 2 tickets\n"]


def test_a_closed_account_is_not_tried_again(deployment: FakeDeployment) -> None:
    job = deployment.client().submit(sync, Sync(origin="closed", tickets=[]))

    with pytest.raises(JobFailedError, match="the account is closed"):
        job.wait()
    assert (job.state, job.data.attempt) == ("failed", 1)


def test_many_are_copied_side_by_side(deployment: FakeDeployment) -> None:
    customers = [Sync(origin="acme", tickets=[1]), Sync(origin="globex", tickets=[2, 3])]

    copied = deployment.client().map(sync, customers)

    assert [each.result() for each in copied] == [1, 2]


def test_params_are_checked(deployment: FakeDeployment) -> None:
    with pytest.raises(RequestError, match=r"params\.tickets"):
        deployment.client().submit("sync", {"origin": "acme", "tickets": "all"})
