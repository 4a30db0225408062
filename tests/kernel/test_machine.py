"""The limits and the adversarial suite on a real cgroup v2, in a machine of the test's own."""

import pytest

from ec2_agent.sandbox import probe
from tests.kernel import vm

LONGEST_S = 400


@pytest.mark.skipif(probe().isolation == "full", reason="this host has cgroup v2: run natively")
@pytest.mark.timeout(LONGEST_S + 60)
def test_the_sandbox_holds_on_cgroup_v2() -> None:
    if lacking := vm.missing():
        pytest.fail(lacking)
    command = [
        *(".venv/bin/python", "-m", "pytest", "-q", "-p", "no:cacheprovider"),
        *("tests/kernel/test_limits.py", "tests/sandbox", "--durations=10"),
    ]
    finished = vm.run(command, LONGEST_S)
    assert finished.exit_code == 0, finished.output[-6000:] + finished.console[-2000:]
