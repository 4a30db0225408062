"""The limits and the adversarial cases on arm64, in an emulated machine: `scripts/test arm64`."""

import pytest

from tests.kernel.architectures import ARM64
from tests.kernel.machine_tests import check_machine

LONGEST_S = 1500


@pytest.mark.timeout(LONGEST_S + 60)
def test_the_sandbox_holds_on_arm64() -> None:
    check_machine(ARM64, LONGEST_S)
