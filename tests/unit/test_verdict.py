"""The judge of the kill tests: each promise, broken, is seen."""

from dataclasses import replace

import pytest

from scripts.local.verdict import Breach, Case, breaches, count
from scripts.local.witness import END, Run

TICKS = 5
WHOLE = [*map(str, range(TICKS)), END]


def run(token: str, begin: float, lines: int = TICKS + 1) -> Run:
    return Run(token, [begin + n / 10 for n in range(lines)], WHOLE[:lines])


def printed(*runs: Run) -> str:
    return "".join(f"{each.token} {what}\n" for each in runs for what in each.told)


ONCE = Case(
    ticks=TICKS,
    restartable=True,
    state="completed",
    runs=[run("a", 1)],
    output=printed(run("a", 1)),
    shim_kills=0,
)
CUT, AGAIN = run("a", 1, 4), run("b", 2)
TWICE = replace(ONCE, runs=[CUT, AGAIN], output=printed(CUT, AGAIN), shim_kills=1)
FAILED = replace(
    ONCE, restartable=False, state="failed", runs=[CUT], output=printed(CUT), shim_kills=1
)


@pytest.mark.parametrize(
    "case",
    [
        ONCE,
        replace(ONCE, restartable=False),
        TWICE,
        replace(TWICE, runs=[run("a", 1, 2), AGAIN], output=printed(AGAIN), shim_kills=0),
        replace(TWICE, runs=[run("a", 1), AGAIN], output=printed(AGAIN)),
        replace(TWICE, output=printed(run("a", 1, 2), AGAIN)),
        FAILED,
        replace(FAILED, runs=[], output="", shim_kills=0),
        replace(FAILED, runs=[run("a", 1)], output=printed(CUT)),
    ],
)
def test_what_may_happen_breaks_nothing(case: Case):
    assert set() == breaches(case)


@pytest.mark.parametrize(
    ("case", "breach"),
    [
        (replace(ONCE, state="active"), "loss"),
        (replace(ONCE, state="dead"), "loss"),
        (replace(ONCE, state="failed"), "loss"),
        (replace(ONCE, runs=[], output=""), "loss"),
        (replace(ONCE, runs=[CUT], shim_kills=1), "loss"),
        (replace(FAILED, runs=[run("a", 1)], output=printed(run("a", 1)), shim_kills=0), "loss"),
        (replace(TWICE, runs=[CUT, run("b", 1.2)]), "overlap"),
        (replace(TWICE, restartable=False), "repeat"),
        (replace(TWICE, runs=[run("a", 1), AGAIN], shim_kills=0), "repeat"),
        (replace(TWICE, runs=[run("a", 1), run("b", 2, 3)], shim_kills=0), "repeat"),
        (replace(TWICE, shim_kills=0), "interruption"),
        (replace(FAILED, shim_kills=0), "interruption"),
        (replace(ONCE, output=printed(run("a", 1)).replace("a 2\n", "")), "torn_log"),
        (replace(ONCE, output=printed(run("a", 1)).replace("a 2\n", "a 2\na 2\n")), "torn_log"),
        (replace(ONCE, output=printed(run("a", 1)).replace("a end\n", "")), "torn_log"),
        (replace(ONCE, output=printed(run("a", 1), run("z", 1))), "torn_log"),
        (replace(TWICE, output=printed(CUT, run("b", 1, 4))), "torn_log"),
    ],
)
def test_each_broken_promise_is_seen(case: Case, breach: Breach):
    assert breach in breaches(case)


def test_broken_promises_are_counted_and_told():
    counted, (line,) = count({"good": ONCE, "bad": replace(TWICE, runs=[CUT, run("b", 1.2)])})
    assert {"overlap": 1} == dict(counted)
    assert line.startswith("bad: overlap: completed, 5 ticks, shim killed 1 times")
