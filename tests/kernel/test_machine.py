"""The limits and the adversarial cases on a real cgroup v2, in an emulated machine."""

import re

import pytest

from ec2_agent.sandbox.probe import probe
from tests.kernel import vm

LONGEST_S = 500

PYTESTS, FEWEST = 3, 20
"""How many summaries SCRIPT prints, and how many tests each counts at least: a machine that runs
nothing must not pass."""

# The limits measure time and CPU, so they run alone; the rest takes both cores. Emulated, imports
# are slow: of plugins and conftest.py only what these tests use is loaded.
SCRIPT = r"""
export PYTEST_DISABLE_PLUGIN_AUTOLOAD=1
tests() {
    $PWD/.venv/bin/python -m pytest --quiet --color=no --durations=3 -p no:cacheprovider \
        -p pytest_timeout --confcutdir=$PWD/tests/sandbox "$@"
}
tests tests/kernel/test_limits.py tests/kernel/test_cgroups.py || exit
mkdir /tmp/beside  # test_soak.py looks at /tmp
TMPDIR=/tmp/beside tests tests/sandbox/test_endings.py tests/sandbox/test_keepers.py \
    tests/sandbox/test_egress.py & first=$!
tests tests/sandbox/test_adversarial.py tests/sandbox/test_own_inodes.py \
    tests/sandbox/test_output.py tests/sandbox/test_soak.py ||
    code=$?
wait $first && exit ${code:-0}
"""


@pytest.mark.skipif(probe().isolation == "full", reason="this host has cgroup v2: run natively")
@pytest.mark.timeout(LONGEST_S + 60)
def test_the_sandbox_holds_on_cgroup_v2() -> None:
    if lacking := vm.missing():
        pytest.fail(lacking)
    finished = vm.run(["sh", "-c", SCRIPT], LONGEST_S)
    seen = finished.output[-6000:] + finished.console[-2000:]
    assert finished.exit_code == 0, seen
    summaries = re.findall(r"(\d+) passed", finished.output)
    assert len(summaries) == PYTESTS, seen
    assert all(int(count) >= FEWEST for count in summaries), seen
    print(finished.output)
