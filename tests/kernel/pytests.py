"""Runs pytest several times in a test machine, each in a fork of one process that has imported it.

Emulated, these imports take longer than most of the tests. The arguments are those of every run;
each line of standard input has the files of one. The first run, if it has any, ends before the
others begin, which run side by side.
"""

import gc
import importlib
import os
import sys
from pathlib import Path

import pytest
from _pytest.config import default_plugins

from tests.sandbox.running import strongest  # with most of what the tests import

BESIDE = Path("/tmp/beside")
"""The temporary directory of the second run: test_soak.py, in the third, looks at /tmp."""


class Quiet:
    """Keeps the garbage collector from what is imported, as tests/conftest.py does.

    Emulated, one look at all of it takes half a second, and pytest has five at its end.
    """

    def pytest_collection_finish(self) -> None:
        """Let it begin after everything is imported."""
        gc.freeze()
        gc.enable()


def start(files: str, temporary: Path = BESIDE.parent) -> int:
    """Start a run; returns its process."""
    if process := os.fork():
        return process
    os.environ["TMPDIR"] = str(temporary)
    code = pytest.main([*sys.argv[1:], *files.split()], [Quiet()])
    sys.stdout.flush()
    os._exit(code)  # nothing is taken apart


def wait(process: int) -> int:
    """Return the exit code of a run, once it has ended."""
    return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])


def main() -> int:
    """Make all runs; returns an exit code that is not 0, if there is one."""
    gc.disable()
    for plugin in default_plugins:  # once, not in each run
        importlib.import_module(f"_pytest.{plugin}")
    strongest()  # which all of them ask for, and which makes a sandbox to find out
    alone, first, second = sys.stdin
    if alone.strip() and (code := wait(start(alone))):
        return code
    BESIDE.mkdir()
    codes = [wait(process) for process in [start(first, BESIDE), start(second)]]
    return codes[0] or codes[1]


if __name__ == "__main__":
    sys.exit(main())
