"""A job's command as it is sent to a slot."""

import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from ec2_agent.sandbox import wire
from ec2_agent.sandbox.launcher_process import make_refusal
from ec2_agent.sandbox.model import SandboxRefused, Spec, refusal


@dataclass(frozen=True, slots=True)
class SandboxCommand:
    """A command with its environment and its descriptors."""

    spec: Spec
    env: Mapping[str, str]
    fds: tuple[int, ...]
    """stdin if the spec has it, stdout, stderr, and perhaps the job's line."""
    machine: bytes | None = None
    """The files about its machine, encoded; None: those that the slot has."""
    check: Callable[[], None] | None = None
    """Called before it is sent; what it raises is raised."""

    def send(self, sock: socket.socket) -> None:
        """Send it to a slot; raises SandboxRefused if the slot has ended."""
        if self.check is not None:
            self.check()
        spec = self.spec
        has_stdin = spec.stdin is not None
        try:
            run = wire.run_body(
                spec.argv, self.env, spec.timeout_s, spec.grace_s, has_stdin=has_stdin
            )
        except UnicodeEncodeError as wrong:
            raise SandboxRefused(f"the command or its environment is not text: {wrong}") from None
        try:
            if self.machine is not None:
                wire.send_raw(sock, self.machine)
            wire.send_run(sock, run, self.fds)
        except OSError as gone:
            raise make_early_end(sock, gone) from gone


def make_early_end(sock: socket.socket, gone: OSError) -> SandboxRefused:
    """Give the error of a slot that has ended before it got its job: what it said, or `gone`.

    agent: MAKE -------------------- RUN: EPIPE, but what the slot has sent can still be read
    slot:       M, a step fails, F
    """
    try:
        answer = wire.receive_answer(sock, socket.MSG_DONTWAIT)
    except OSError:
        answer = b""
    if answer[:1] == wire.REFUSED:
        return make_refusal("the sandbox could not be made", answer, "")
    return refusal(gone.errno, f"the sandbox ended before it got its job: {gone}")


def check_texts(argv: tuple[str, ...], env: Mapping[str, str]) -> None:
    """Raise SandboxRefused for what the kernel would not take."""
    if not argv or not argv[0]:
        raise SandboxRefused("the command is empty")
    if any("\0" in text for text in (*argv, *env, *env.values())):
        raise SandboxRefused("the command or its environment contains a NUL character")
    if any(not name or "=" in name for name in env):
        raise SandboxRefused("an environment variable has an empty name or a name with =")
