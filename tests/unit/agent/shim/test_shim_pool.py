"""How many shims wait for a job: after a peak those that no start has needed are ended.

In virtual time, with sockets in place of processes: `tests/sandbox/test_shims_again.py` has real
ones.
"""

import asyncio
import socket
from collections.abc import Awaitable, Callable

from ec2_agent.sandbox import wire
from ec2_agent.shim.pool import SHRINK_S, SPARE, Shims
from tests.support import inline_calls

PEAK = 20


class Sockets(Shims):
    """A pool whose shims are the other ends of sockets, ready at once."""

    def __init__(self) -> None:
        self.forked: list[socket.socket] = []
        """The shims' ends of all connections."""
        self._of: dict[socket.socket, socket.socket] = {}
        super().__init__()

    def _start(self) -> None:
        """Start nothing."""

    def _refill(self) -> None:
        while len(self._spare) < SPARE:
            ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            theirs.send(wire.READY)
            self.forked.append(theirs)
            self._of[ours] = theirs
            self._spare.append(ours)

    @property
    def waiting(self) -> int:
        """Shims that wait for a job."""
        return len(self._spare)

    @property
    def ended(self) -> int:
        """Shims whose connection the agent has closed."""
        return sum(_closed(theirs) for theirs in self.forked)

    def ends(self, shim: socket.socket) -> None:
        """Have the process of a shim end."""
        self._of[shim].close()

    def job_ends(self, shim: socket.socket) -> None:
        """Let a job go: the shim is ready for another one."""
        self._of[shim].send(wire.READY)
        self.put_back(shim)

    def close(self) -> None:
        """Close what is left."""
        for sock in (*self.forked, *self._of):
            sock.close()


def _closed(theirs: socket.socket) -> bool:
    """Whether the other end is closed."""
    if theirs.fileno() < 0:
        return False  # it has ended by itself
    try:
        return theirs.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT) == b""
    except BlockingIOError:
        return False
    except ConnectionResetError:  # closed with a message that was not read
        return True


def live(during: Callable[[Sockets], Awaitable[None]]) -> None:
    """Let a pool live."""

    async def work() -> None:
        pool = Sockets()
        try:
            await during(pool)
        finally:
            pool.close()

    inline_calls.run(work())


def peak(pool: Sockets, jobs: int = PEAK) -> None:
    """So many jobs at a time, which all end."""
    for shim in [pool.take() for _ in range(jobs)]:
        pool.job_ends(shim)


def test_after_a_peak_only_spare_shims_are_left():
    async def during(pool: Sockets) -> None:
        peak(pool)
        assert PEAK + SPARE == pool.waiting
        await asyncio.sleep(2 * SHRINK_S + 1)
        assert (SPARE, PEAK) == (pool.waiting, pool.ended)
        assert PEAK + SPARE == len(pool.forked)

    live(during)


def test_shims_that_are_needed_again_and_again_stay():
    async def during(pool: Sockets) -> None:
        for _ in range(60):
            peak(pool, 5)
            await asyncio.sleep(1)
        assert (5 + SPARE, 0) == (len(pool.forked), pool.ended)

    live(during)


def test_a_smaller_load_keeps_what_it_needs():
    async def during(pool: Sockets) -> None:
        peak(pool)
        for _ in range(40):
            peak(pool, 3)
            await asyncio.sleep(1)
        assert 3 + SPARE == pool.waiting
        forked = len(pool.forked)
        peak(pool, 3)
        assert forked == len(pool.forked), "no start waits for a fork"

    live(during)


def test_a_second_peak_and_its_end_are_seen():
    async def during(pool: Sockets) -> None:
        for _ in range(2):
            peak(pool)
            await asyncio.sleep(3 * SHRINK_S)
            assert SPARE == pool.waiting
        assert 2 * PEAK == pool.ended

    live(during)


def test_a_start_finds_a_shim_after_all_that_waited_have_ended():
    async def during(pool: Sockets) -> None:
        shims = [pool.take() for _ in range(PEAK)]
        for shim in shims:
            pool.ends(shim)
            pool.put_back(shim)
        for _ in range(PEAK):
            assert pool.take() not in shims
        assert 2 * PEAK + SPARE == len(pool.forked)

    live(during)
