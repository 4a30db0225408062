"""What jobs tell of when they ran, and the question whether two runs were alive at once."""

import pytest

from scripts.local.witness import Run, overlap, quiet_s


def run(*at: float) -> Run:
    return Run("run", list(at), ["0"] * len(at))


@pytest.mark.parametrize(
    ("runs", "both"),
    [
        ([], False),
        ([run(1, 2)], False),
        ([run(1, 2), run(2.001)], False),
        ([run(1, 2), run(2)], True),
        ([run(1, 9), run(2, 3)], True),
        ([run(1, 9), run(2, 3), run(4, 5)], True),
        ([run(1, 2), run(3, 9), run(4)], True),
    ],
)
def test_runs_overlap_when_one_begins_before_another_has_ended(runs: list[Run], *, both: bool):
    assert both == overlap(runs)


def test_the_quiet_between_runs_is_counted():
    assert [1.5, 3.0] == quiet_s([run(1, 2), run(3.5, 4), run(7)])
