"""The limits and the adversarial cases on a real cgroup v2, in an emulated machine."""

import pytest

from tests.kernel.architectures import X86_64
from tests.kernel.machine_tests import check_machine
from tests.sandbox.running import strongest
from tests.support.depth import budget

LONGEST_S = budget(500, 1500)


@pytest.mark.skipif(strongest() == "full", reason="this host has cgroup v2: run natively")
@pytest.mark.timeout(LONGEST_S + 60)
def test_the_sandbox_holds_on_cgroup_v2() -> None:
    check_machine(X86_64, LONGEST_S)
