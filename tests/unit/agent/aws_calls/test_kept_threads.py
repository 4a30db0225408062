"""Threads that make one call after another."""

import threading
import weakref
from collections.abc import Callable
from concurrent.futures import wait

import pytest

from ec2_agent.calls import KeptThreads, NoThread

WAIT_S = 20.0


def test_a_thread_that_has_no_call_makes_the_next_one():
    threads = KeptThreads("start")
    first = threads.submit(threading.get_ident)
    ident = first.result(WAIT_S)
    _until_idle(threads, 1)
    assert ident == threads.submit(threading.get_ident).result(WAIT_S)


def test_calls_at_once_have_a_thread_each():
    threads, together = KeptThreads("start"), threading.Barrier(3)

    def meet() -> int:
        together.wait(WAIT_S)
        return threading.get_ident()

    calls = [threads.submit(meet) for _ in range(3)]
    assert 3 == len({call.result(WAIT_S) for call in calls})


def test_a_call_that_fails_leaves_its_thread_for_the_next():
    threads = KeptThreads("start")

    def fail() -> None:
        raise KeyError("no")

    with pytest.raises(KeyError):
        threads.submit(fail).result(WAIT_S)
    _until_idle(threads, 1)
    assert 5 == threads.submit(lambda: 5).result(WAIT_S)


def test_a_thread_without_calls_ends():
    threads = KeptThreads("start", kept_s=0.0)
    thread = threads.submit(threading.current_thread).result(WAIT_S)
    thread.join(WAIT_S)
    assert not thread.is_alive()
    assert 5 == threads.submit(lambda: 5).result(WAIT_S)


def test_no_call_is_lost_while_threads_end():
    """Each call meets a thread that gives up waiting, now before and now after it is chosen."""
    threads = KeptThreads("start", kept_s=0.0)
    for number in range(2000):
        assert number == threads.submit(int, number).result(WAIT_S)


def test_many_callers_get_their_own_results():
    threads = KeptThreads("start")

    def result(number: int) -> Callable[[], int]:
        return lambda: number

    calls = [threads.submit(result(number)) for number in range(300)]
    wait(calls, WAIT_S)
    assert list(range(300)) == [call.result() for call in calls]


def test_what_a_call_used_is_not_kept_with_its_thread():
    class Used:
        pass

    threads, gone = KeptThreads("start", kept_s=3600), threading.Event()
    used = Used()
    weakref.finalize(used, gone.set)
    threads.submit(id, used).result(WAIT_S)
    del used
    assert gone.wait(WAIT_S)


def test_a_call_for_which_there_is_no_thread_raises():
    before = threading.stack_size(1 << 46)
    try:
        with pytest.raises(NoThread, match="no thread"):
            KeptThreads("start").submit(lambda: None)
    finally:
        threading.stack_size(before)


def _until_idle(threads: KeptThreads, count: int) -> None:
    """A result is there before its thread waits for the next call."""
    for _ in range(20_000):
        if len(threads._idle) == count:  # nothing else shows it
            return
        threading.Event().wait(0.001)
    raise AssertionError(f"{len(threads._idle)} threads wait, not {count}")
