"""The compiled part of slots (slot.c), for the launcher process."""

import ctypes
import errno
import os

from ec2_agent.sandbox import kernel

TYPE_CHECKING = False  # see wire.py
if TYPE_CHECKING:
    from ec2_agent.sandbox.steps import Steps


class Native:
    """The library. Its functions keep the interpreter's lock, as those of `kernel` do."""

    __slots__ = ("_fork", "_steps", "await_holder", "library", "run_one")

    def __init__(self) -> None:
        """Load it; raises OSError if it is not there."""
        name = f"slot-{os.uname().machine}.so"
        path = os.path.join(os.path.dirname(__file__), name)
        try:
            self.library = library = ctypes.PyDLL(path, use_errno=True)
        except OSError as failed:
            why = f"the compiled part of sandboxes: {failed}; scripts/setup makes it in a checkout"
            raise OSError(errno.ENOEXEC, why) from failed
        address, number = ctypes.c_void_p, ctypes.c_long
        self._steps = library.slot_steps
        self._steps.argtypes = (address, number)
        self._steps.restype = number
        self._fork = library.slot_fork
        self._fork.argtypes = (address, number, ctypes.c_int, address, number, ctypes.c_int)
        self._fork.restype = number
        self.run_one = library.slot_run_one
        self.run_one.argtypes = (ctypes.c_int,)
        self.run_one.restype = None
        self.await_holder = library.slot_await_holder
        self.await_holder.restype = None

    def carry_out(self, steps: "Steps", uid: int) -> None:
        """Carry out a list of system calls; raises the OSError of the first that fails."""
        done = self._steps(steps.address(uid), steps.count)
        if done != steps.count:
            number = ctypes.get_errno()
            raise OSError(number, f"{steps.what(done)}: {os.strerror(number)}")

    def fork(
        self, flags: int, cgroup: int | None, sock: int, steps: "Steps", uid: int, *, pooled: bool
    ) -> int:
        """Start a slot that carries out these steps and then waits for its job; return its pid.

        Its own end of the agent's socket is `sock`. Raises OSError.
        """
        arguments, size = kernel.clone_arguments(flags, cgroup)
        address, count = steps.address(uid), steps.count
        pid: int = self._fork(arguments, size, sock, address, count, pooled)
        if pid < 0:
            number = ctypes.get_errno()
            raise OSError(number, f"clone3: {os.strerror(number)}")
        return pid
