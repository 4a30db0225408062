"""scripts/cdk destroy: removes the scale-in protection of the fleets' instances, then destroys.

A stack that is still there afterwards, because somebody answered no or named other stacks, gets the
protection of its instances back.
"""

import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from infra.config import load_config
from infra.errors import InfraError
from joblane.deployment.names import fleet_stack_name
from scripts.deploying.errors import DeployError
from scripts.deploying.options import parse
from scripts.deploying.protection import Clock, DeployedGroups, set_protection
from scripts.deploying.session import identity, new_session

ROOT = Path(__file__).resolve().parents[2]
CDK = ROOT / "node_modules/.bin/cdk"


class Stacks:
    """The stacks of an account."""

    def __init__(self, cloudformation: Any) -> None:
        self._cloudformation = cloudformation

    def status(self, name: str) -> str | None:
        """Return a stack's status; None when there is no such stack. Raises ClientError."""
        try:
            found = self._cloudformation.describe_stacks(StackName=name)["Stacks"]
        except ClientError as error:
            if "does not exist" in str(error):
                return None
            raise
        return str(found[0]["StackStatus"]) if found else None


def stays(status: str | None) -> bool:
    """Whether a stack with this status is there, and CloudFormation is not deleting it.

    A failed creation is rolled back by deleting what it has made. What could not be deleted does
    not stay either: the next destroy would wait again.
    """
    return status is not None and not status.startswith(("DELETE_", "ROLLBACK_"))


def destroy(
    groups: DeployedGroups, stacks: Stacks, deployment: str, run: Callable[[], int], clock: Clock
) -> int:
    """Remove the protection, run the CDK, and return its exit code.

    Raises ClientError and TimeoutError.
    """
    before = groups.read()
    names = [group.name for group in before]
    changed = set_protection(groups, names, protected=False, clock=clock)
    _say(f"removed the scale-in protection of {len(names)} groups and {changed} instances")
    code = run()
    again = [
        group.name
        for group in before
        if group.protects_new and stays(stacks.status(fleet_stack_name(deployment, group.name)))
    ]
    if again:
        set_protection(groups, again, protected=True, clock=clock)
        _say(f"protected again, since their stacks stay: {', '.join(again)}")
    return code


def main(words: Sequence[str]) -> int:
    """Destroy what `words` name, which are those behind `destroy`."""
    given = parse(words, ROOT)

    def run() -> int:
        # Ctrl-C reaches the CDK as well, which says what CloudFormation goes on with. A handler,
        # unlike SIG_IGN, is not inherited.
        before = signal.signal(signal.SIGINT, lambda *_: None)
        try:
            with subprocess.Popen([CDK, "destroy", *words], cwd=ROOT) as cdk:
                return cdk.wait()
        finally:
            signal.signal(signal.SIGINT, before)

    if given.asks:
        return run()
    try:
        config = load_config(given.config)
        session = new_session(given.profile)
        identity(session)
        groups = DeployedGroups(session.client("autoscaling"), config.name)
        stacks = Stacks(session.client("cloudformation"))
        return destroy(groups, stacks, config.name, run, Clock())
    except InfraError as error:
        for line in error.lines:
            _say(line)
    except (DeployError, TimeoutError) as error:
        _say(str(error))
    except (BotoCoreError, ClientError) as error:
        _say(
            f"{' '.join(str(error).split())}; it needs autoscaling:DescribeAutoScalingGroups, "
            "UpdateAutoScalingGroup and SetInstanceProtection, and cloudformation:DescribeStacks"
        )
    return 1


def _say(line: str) -> None:
    print(f"scripts/cdk destroy: {line}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
