"""Runs tests in processes that are forked when the tests have been collected: `--processes N`.

    collected --fork--> piece 1, piece 4, ...   reports
              --fork--> piece 2, piece 3, ... ----------> told to pytest as those of its own tests

A process takes the next piece when it has ended one. Why not pytest-xdist: docs/decisions/2002.
"""

import multiprocessing
import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import chain, groupby, islice, pairwise
from multiprocessing.connection import Connection, wait
from typing import Any

import pytest

PIECE = 20
"""Tests that a process takes at once, at most; all of one file."""

_STOPPED = 1 << 30
"""In place of the number of pieces that were taken: no test is to begin any more."""

_FORK = multiprocessing.get_context("fork")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options."""
    group = parser.getgroup("forked")
    group.addoption("--processes", type=int, default=1, metavar="N", help="run N processes")
    group.addoption("--whole-files", action="store_true", help="all tests of a file in one process")


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> bool | None:
    """Run the tests in processes, if more than one was asked for."""
    option = session.config.option
    if option.processes == 1 or option.collectonly or session.testsfailed:
        return None
    if others := threading.enumerate()[1:]:
        raise session.Interrupted(f"a fork leaves these threads out: {others}")
    tests = _Tests(session.items, None if option.whole_files else PIECE)
    session.config._tmp_path_factory.getbasetemp()  # type: ignore[attr-defined] # made once
    processes: dict[Any, Any] = {}
    for number in range(option.processes):
        reader, writer = _FORK.Pipe(duplex=False)
        arguments = (session, number, tests, writer, (*processes, reader))
        processes[reader] = _FORK.Process(target=_work, args=arguments)
        processes[reader].start()
        writer.close()
    try:
        _report(session, list(processes))
    finally:
        tests.stop()
        for reader, process in processes.items():
            reader.close()
            process.join()
    if session.shouldfail:
        raise session.Failed(session.shouldfail)
    if lost := [process.exitcode for process in processes.values() if process.exitcode]:
        raise session.Interrupted(f"of {len(lost)} processes tests are missing; exit codes: {lost}")
    return True


@pytest.fixture(scope="session")
def process(request: pytest.FixtureRequest) -> int | None:
    """The number of this process among those that were forked."""
    return getattr(request.config, "process", None)


class _Tests:
    """What is left to run, for all processes."""

    def __init__(self, items: Sequence[pytest.Item], most: int | None) -> None:
        self._pieces: list[Sequence[pytest.Item]] = []
        for _, group in groupby(items, lambda item: item.path):
            while piece := tuple(islice(group, most)):
                self._pieces.append(piece)
        self._taken = _FORK.Value("i", 0)

    def __iter__(self) -> Iterator[pytest.Item]:
        while (number := self._take()) < len(self._pieces):
            for item in self._pieces[number]:
                if self._taken.value >= _STOPPED:
                    return
                yield item

    def _take(self) -> int:
        with self._taken.get_lock():
            number: int = self._taken.value
            self._taken.value = number + 1
        return number

    def stop(self) -> None:
        """Begin none any more."""
        self._taken.value = _STOPPED


def _report(session: pytest.Session, readers: list[Any]) -> None:
    """Tell pytest what the processes report, until all have ended or enough has failed."""
    config = session.config
    while readers and not session.shouldfail:
        for reader in wait(readers):
            assert isinstance(reader, Connection)
            try:
                data = reader.recv()
            except EOFError:
                readers.remove(reader)
                continue
            report = config.hook.pytest_report_from_serializable(config=config, data=data)
            config.hook.pytest_runtest_logreport(report=report)


class _Reporter:
    def __init__(self, config: pytest.Config, writer: "Connection[Any, Any]") -> None:
        self._config = config
        self._writer = writer

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        data = self._config.hook.pytest_report_to_serializable(config=self._config, report=report)
        with suppress(BrokenPipeError):  # enough has failed
            self._writer.send(data)


def _work(
    session: pytest.Session,
    number: int,
    tests: _Tests,
    writer: "Connection[Any, Any]",
    readers: Sequence["Connection[Any, Any]"],
) -> None:
    for reader in readers:  # or nobody would notice when the first process reads no more
        reader.close()
    config: Any = session.config
    config.process = number
    config.workerinput = {}  # other plugins know by it that what is for the whole run is not theirs
    # The files with what tests print would be the same for all processes.
    capture = config.pluginmanager.getplugin("capturemanager")
    capture.stop_global_capturing()
    capture.start_global_capturing()
    factory = config._tmp_path_factory
    factory._basetemp = factory.getbasetemp() / str(number)
    factory._basetemp.mkdir()
    with open(os.devnull, "w") as nowhere:  # noqa: PTH123
        config.get_terminal_writer()._file = nowhere  # the first process prints
        config.pluginmanager.register(_Reporter(config, writer))
        try:
            for item, following in pairwise(chain(tests, (None,))):
                config.hook.pytest_runtest_protocol(item=item, nextitem=following)
        except KeyboardInterrupt:  # the first process says so
            pass
        finally:
            config.hook.pytest_sessionfinish(session=session, exitstatus=0)
