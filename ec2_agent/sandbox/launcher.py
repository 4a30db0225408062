"""The launcher: a process of its own that makes sandboxes, and the agent's handle to it."""

from pathlib import Path
from types import TracebackType
from typing import Self

from ec2_agent.sandbox.handle import Sandbox
from ec2_agent.sandbox.model import EgressPolicy, Isolation, Limits, SandboxRefused, Spec

DEFAULTS = Limits(pids=1024, tmp_mb=256)
STATE_DIR = Path("/run/joblane")


class Launcher:
    """Makes sandboxes. A context manager; every method may be called from any thread."""

    def __init__(
        self,
        *,
        isolation: Isolation,
        slots: int,
        defaults: Limits = DEFAULTS,
        allow_host_network: bool = False,
        egress: EgressPolicy | None = None,
        state_dir: Path = STATE_DIR,
        programs: tuple[Path, ...] = (),
    ) -> None:
        """Start the launcher process; raise SandboxRefused if `isolation` cannot be had.

        `slots` is how many sandboxes are kept ready. `programs` are host trees that jobs may
        read and execute beside /usr, at their own paths.
        """
        raise SandboxRefused("the launcher is being written")

    def start(self, spec: Spec, *, stdout: int, stderr: int) -> Sandbox:
        """Run the job; raise SandboxRefused, with nothing run, if it cannot be run as asked.

        `stdout` and `stderr` are descriptors the job writes to; the caller closes its copies
        afterwards. stdin is /dev/null.
        """
        raise SandboxRefused("the launcher is being written")

    def close(self) -> None:
        """Kill what still runs and take everything away."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
