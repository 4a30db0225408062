"""Runs pytest several times in a test machine, each in a fork of one process that has imported it.

Emulated, these imports take longer than most of the tests. The arguments are those of every run;
each line of standard input has the files of one. The first run, if it has any, ends before the
others begin, which run side by side.
"""

import os
import sys
from pathlib import Path

import pytest

from tests.sandbox.running import strongest  # with most of what the tests import

BESIDE = Path("/tmp/beside")
"""The temporary directory of the second run: test_soak.py, in the third, looks at /tmp."""


def start(files: str, temporary: Path = BESIDE.parent) -> int:
    """Start a run; returns its process."""
    if process := os.fork():
        return process
    os.environ["TMPDIR"] = str(temporary)
    sys.exit(pytest.main([*sys.argv[1:], *files.split()]))


def wait(process: int) -> int:
    """Return the exit code of a run, once it has ended."""
    return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])


def main() -> int:
    """Make all runs; returns an exit code that is not 0, if there is one."""
    strongest()  # which all of them ask for, and which makes a sandbox to find out
    alone, first, second = sys.stdin
    if alone.strip() and (code := wait(start(alone))):
        return code
    BESIDE.mkdir()
    codes = [wait(process) for process in [start(first, BESIDE), start(second)]]
    return codes[0] or codes[1]


if __name__ == "__main__":
    sys.exit(main())
