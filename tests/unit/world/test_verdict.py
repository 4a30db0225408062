"""The judge of the kill tests: each promise, broken, is seen."""

from dataclasses import replace

import pytest

from scripts.local.verdict import Breach, Case, Record, breaches, count
from scripts.local.witness import END, NOT_UTF8, Run
from scripts.local.witness import format_line as line

TICKS = 5
WHOLE = [*map(str, range(TICKS)), END]


def run(token: str, begin: float, lines: int = TICKS + 1) -> Run:
    return Run(token, [begin + n / 10 for n in range(lines)], WHOLE[:lines])


def printed(*runs: Run) -> tuple[Record, ...]:
    return tuple(
        Record(epoch, seq, line(each.token, what))
        for epoch, each in enumerate(runs, 1)
        for seq, what in enumerate(each.told, 1)
    )


def changed(output: tuple[Record, ...], old: bytes, new: bytes) -> tuple[Record, ...]:
    """Output with other bytes in it."""
    return tuple(record._replace(data=record.data.replace(old, new)) for record in output)


def renumbered(output: tuple[Record, ...], first: int) -> tuple[Record, ...]:
    """The same bytes, with other numbers."""
    return tuple(record._replace(seq=seq) for seq, record in enumerate(output, first))


LINES = printed(run("a", 1))

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
        replace(
            ONCE, output=(Record(1, 1, LINES[0].data + LINES[1].data), *renumbered(LINES[2:], 2))
        ),
        FAILED,
        replace(FAILED, runs=[], output=(), shim_kills=0),
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
        (replace(ONCE, runs=[], output=()), "loss"),
        (replace(ONCE, runs=[CUT], shim_kills=1), "loss"),
        (replace(FAILED, runs=[run("a", 1)], output=printed(run("a", 1)), shim_kills=0), "loss"),
        (replace(TWICE, runs=[CUT, run("b", 1.2)]), "overlap"),
        (replace(TWICE, restartable=False), "repeat"),
        (replace(TWICE, runs=[run("a", 1), AGAIN], shim_kills=0), "repeat"),
        (replace(TWICE, runs=[run("a", 1), run("b", 2, 3)], shim_kills=0), "repeat"),
        (replace(TWICE, shim_kills=0), "interruption"),
        (replace(FAILED, shim_kills=0), "interruption"),
        (replace(ONCE, output=LINES[:2] + LINES[3:]), "torn_log"),
        (replace(ONCE, output=LINES[:3] + LINES[2:]), "torn_log"),
        (replace(ONCE, output=LINES[:-1]), "torn_log"),
        (replace(ONCE, output=LINES[1:]), "torn_log"),
        (replace(ONCE, output=renumbered(LINES[:2] + LINES[3:], 1)), "torn_log"),
        (replace(ONCE, output=renumbered(LINES, 2)), "torn_log"),
        (replace(ONCE, output=(LINES[1], LINES[0], *LINES[2:])), "torn_log"),
        (replace(ONCE, output=changed(LINES, NOT_UTF8, "\ufffd".encode())), "torn_log"),
        (replace(ONCE, output=changed(LINES, b"\n", b"")), "torn_log"),
        (replace(ONCE, output=printed(run("a", 1), run("z", 1))), "torn_log"),
        (replace(TWICE, output=printed(CUT, run("b", 1, 4))), "torn_log"),
        (replace(TWICE, output=tuple(r._replace(epoch=1) for r in TWICE.output)), "torn_log"),
        (replace(TWICE, output=TWICE.output[4:] + TWICE.output[:4]), "torn_log"),
    ],
)
def test_each_broken_promise_is_seen(case: Case, breach: Breach):
    assert breach in breaches(case)


def test_broken_promises_are_counted_and_told():
    counted, (line,) = count({"good": ONCE, "bad": replace(TWICE, runs=[CUT, run("b", 1.2)])})
    assert {"overlap": 1} == dict(counted)
    assert line.startswith("bad: overlap: completed, 5 ticks, shim killed 1 times")
