"""The limits and the adversarial suite on a real cgroup v2, in a machine of the test's own."""

import re

import pytest

from ec2_agent.sandbox import probe
from tests.kernel import vm

LONGEST_S = 500

PYTESTS, FEWEST = 3, 20
"""How many summaries SCRIPT prints, and how many tests each counts at least: a machine that runs
nothing must not pass."""

# The limits measure time and CPU, so they run alone; the rest takes both cores.
SCRIPT = """
python=$PWD/.venv/bin/python
tests() { "$python" -m pytest --quiet --color=no -p no:cacheprovider "$@"; }
tests tests/kernel/test_limits.py || exit
mkdir /tmp/beside
TMPDIR=/tmp/beside tests tests/sandbox/test_adversarial.py & first=$!
cd tests/sandbox
tests test_endings.py test_egress.py test_output.py test_soak.py || code=$?
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
