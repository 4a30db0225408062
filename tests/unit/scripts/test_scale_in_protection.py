"""Instances that are protected from scale-in keep no stack: `scripts/cdk destroy` and its order."""

from collections.abc import Callable

import pytest
from botocore.exceptions import ClientError

from scripts.deploying.destroy import Stacks, destroy
from scripts.deploying.protection import Clock, DeployedGroups, set_protection
from tests.support import protected_fleet
from tests.support.protected_fleet import Made, ProtectedFleets

NAME = "joblane"


@pytest.fixture(name="fleet")
def _fleet() -> Made:
    made = Made("joblane-main", NAME)
    for _ in range(120):
        made.launch("InService")
    made.launch("Standby")
    made.launch("Pending:Wait")
    made.launch("Terminating:Wait")
    return made


@pytest.fixture(name="account")
def _account(fleet: Made) -> ProtectedFleets:
    return ProtectedFleets(fleet, Made("joblane-idle", NAME), other())


def other() -> Made:
    """A group of another deployment, whose name begins alike."""
    made = Made("joblane-test-main", "joblane-test")
    made.launch("InService")
    return made


def clock(account: ProtectedFleets) -> Clock:
    return Clock(lambda: account.now, account.sleep)


def run(account: ProtectedFleets, cdk: Callable[[], int]) -> int:
    return destroy(DeployedGroups(account, NAME), Stacks(account), NAME, cdk, clock(account))


def deletes(account: ProtectedFleets) -> Callable[[], int]:
    def cdk() -> int:
        account.delete_stacks(NAME)
        return 0

    return cdk


def test_the_stand_in_keeps_a_stack_with_a_protected_instance(account: ProtectedFleets):
    account.delete_stacks(NAME)
    assert {"joblane-main", "joblane-test-main"} == account.groups.keys()
    assert "DELETE_FAILED" == account.groups["joblane-main"].stack_status


def test_a_destroy_leaves_no_group_and_touches_no_other_deployment(account: ProtectedFleets):
    assert 0 == run(account, deletes(account))
    (kept,) = account.groups.values()
    assert "joblane-test" == kept.deployment
    assert kept.protects_new
    assert all(each.protected for each in kept.instances)


@pytest.mark.parametrize("state", ["Pending", "InService"])
def test_an_instance_that_is_launched_between_two_calls_is_not_protected(state: str):
    """The function `scaler` raises a group at any moment, and Auto Scaling replaces instances."""
    calls = 1
    for position in range(100):
        fleet = Made("joblane-main", NAME)
        fleet.launch("InService")
        account = ProtectedFleets(fleet)

        def launch(number: int, position: int = position, fleet: Made = fleet) -> None:
            if number == position:
                fleet.launch(state)

        account.before = launch
        names = [group.name for group in DeployedGroups(account, NAME).read()]
        set_protection(DeployedGroups(account, NAME), names, protected=False, clock=clock(account))
        fleet.launch(state)
        assert not any(each.protected for each in fleet.alive), position
        calls = len(account.calls)
        if position >= calls:
            break
    assert 4 <= calls <= position


def test_an_instance_that_ends_between_two_calls_hinders_no_other(account: ProtectedFleets):
    fleet = account.groups["joblane-main"]

    def end(number: int) -> None:
        if account.calls[number - 1 :] == ["describe"] and number > 2:
            account.before = lambda _number: None
            fleet.instances[7].state = "Terminating"

    account.before = end
    assert 0 == run(account, deletes(account))
    assert "joblane-main" not in account.groups


def test_an_instance_that_never_comes_into_service_is_named(
    account: ProtectedFleets, monkeypatch: pytest.MonkeyPatch
):
    def stuck(seconds: float) -> None:
        account.now += seconds

    monkeypatch.setattr(account, "sleep", stuck)
    with pytest.raises(TimeoutError, match="not in service within 600 s: i-joblane-main-121"):
        run(account, deletes(account))


@pytest.mark.parametrize(
    "status", ["CREATE_COMPLETE", "UPDATE_COMPLETE", "UPDATE_ROLLBACK_COMPLETE"]
)
def test_a_stack_that_stays_gets_its_protection_back(account: ProtectedFleets, status: str):
    """Somebody answered no, or `scripts/cdk destroy` named another stack."""
    fleet = account.groups["joblane-main"]
    fleet.stack_status = status

    def answered_no() -> int:
        fleet.launch("InService")
        return 1

    assert 1 == run(account, answered_no)
    assert all(group.protects_new for group in account.groups.values())
    assert all(each.protected for each in fleet.alive)


@pytest.mark.parametrize("status", ["DELETE_IN_PROGRESS", "DELETE_FAILED", "ROLLBACK_IN_PROGRESS"])
def test_a_stack_that_is_being_deleted_does_not(account: ProtectedFleets, status: str):
    """After Ctrl-C CloudFormation goes on, and a failed creation is rolled back by deleting."""

    def interrupted() -> int:
        for group in account.groups.values():
            group.stack_status = status
        return 130

    assert 130 == run(account, interrupted)
    assert not any(each.protected for each in account.groups["joblane-main"].alive)


def test_a_refused_permission_is_raised_before_anything_is_destroyed(
    account: ProtectedFleets, monkeypatch: pytest.MonkeyPatch
):
    denied = protected_fleet.make_refusal("AccessDenied", "SetInstanceProtection")

    def refuse(**_given: object) -> None:
        raise denied

    monkeypatch.setattr(account, "set_instance_protection", refuse)
    with pytest.raises(ClientError, match="AccessDenied"):
        run(account, lambda: pytest.fail("it was destroyed"))
