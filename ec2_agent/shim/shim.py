"""The shim of one job: holds its sandbox, records its output and end, and outlives the agent.

It alone holds the slot's socket, so the job ends with this process at the latest. It reads what
the job writes, answers its line, and notifies a connected agent; it waits for none but as below.

    agent -> shim   {"do": "renew", "until": s} | {"do": "want", "size": bytes}
                    | {"do": "stop", "grace_s": s, "why": text} | {"do": "kill"}
                    | {"do": "want_progress"} | {"do": "send_work"} | {"do": "release"}
                    | {"do": "recorded"}
    shim -> agent   {"is": "grown"} | {"is": "ended", ...}, the content of the file `exit`
                    | {"is": "progress", "said": {...}, "at": ms}, once for each
                      `want_progress`, when there is something new
                    | {"is": "work"} + a descriptor of the work directory, if it is held

`until` is in seconds of CLOCK_BOOTTIME. If no agent renews it in time, the job is killed, because
another agent may soon take it over. The shim of a job with output files stays after the job's end,
until it is asked to release the work directory, or the job's directory is gone.

The agent that has started a job may ask for `record_within_s`, if its journal survives what the
exit record survives. The record is then written only if that agent has ended, or has not said
`recorded` within these seconds after the job's end (decision 0110). Its order also says what it
would ask first: `wants_progress`, and `wants_beyond` for `want`.
"""

import contextlib
import dataclasses
import functools
import json
import os
import select
import signal
import socket
import time
from pathlib import Path

from ec2_agent.processes import boottime, identity, is_ours, pid_of
from ec2_agent.sandbox import wire
from ec2_agent.sandbox.handle import Sandbox
from ec2_agent.sandbox.model import Ending
from ec2_agent.shim import files
from ec2_agent.shim.end_files import EndFiles
from ec2_agent.shim.held_work import CHECK_S, HeldWork
from ec2_agent.shim.line import LineServer
from ec2_agent.shim.log import Writer
from ec2_agent.shim.masking import Secrets
from ec2_agent.shim.operations import LineRequests
from ec2_agent.shim.output import Output
from joblane.condition.names import check_named_by_job

CHECK_CLOCK_S = 10.0
"""How often the lease is checked: poll's timeout does not count while the machine sleeps."""

RETRY_S = 1.0
"""Pause before a file is written again, after the disk was full."""

LEFT = (
    "processes of the job still ran when its command had ended, and were stopped; "
    "let the command wait for those that are to finish"
)

EMPTY_S = 5.0
"""How long the kernel may take to end the sandbox, before its cgroup is removed."""

TYPE_CHECKING = False  # see sandbox/wire.py
if TYPE_CHECKING:
    from typing import Any


class Shim:
    """The state of one shim."""

    def __init__(
        self,
        agent: socket.socket,
        order: "dict[str, Any]",
        fds: list[int],
        process: "dict[str, Any]",
    ) -> None:
        """Take over the job: it is killed if this process ends before `run` has returned.

        After the first six descriptors come those of stderr, the values of secrets and the params,
        and, as the last, the work directory, as the order says. What is between them is only held.
        `process` is this process's identity.
        """
        directory, slot, pidfd, out, line, lock, *more = fds
        pipes, err = {out: "stdout"}, out
        if order["has_stderr"]:
            err = more.pop(0)
            pipes[err] = "stderr"
        secrets = Secrets(wire.read_big(more.pop(0)) if order["has_secrets"] else ())
        params = more[0] if order["has_params"] else None
        self._work = HeldWork(more.pop() if order["has_work"] else None)
        self._directory = directory
        self._held = (lock, *more)
        self._init = os.dup(pidfd)
        self._leaf = Path(order["leaf"]) if order["leaf"] else None
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET, 0, slot)
        self._sandbox = Sandbox(sock, pidfd, self._leaf, counters=tuple(order["counters"]))
        self._until: float = order["until"]
        self._kill_at: float | None = order["kill_at"]
        self._lease_lost = False
        check = functools.partial(check_named_by_job, **order["waits"])
        self._said = LineRequests(check, order["context"], params, secrets)
        line_sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM, 0, line)
        self._line = LineServer(line_sock, self._said, time.monotonic())
        self._line_paused_until = 0.0
        self._heartbeat_s: float | None = order["heartbeat_s"]
        self._grace_s: float = order["grace_s"]
        self._silent = False
        self._progress: dict[str, Any] = {}
        """What it reported last, as it is sent to an agent."""
        self._progress_seen = 0
        self._progress_sent = 0
        self._progress_wanted: bool = order["wants_progress"]
        log = os.open(files.LOG, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600, dir_fd=directory)
        self._log = Writer(log, **order["output"])
        # Only a typed job has a log with levels; what a command writes is stored as it is.
        self._output = Output(pipes, self._log, secrets, None if params is None else err)
        self._secrets = secrets
        self._main_ended = False
        self._wanted: int | None = order["wants_beyond"]
        self._end_files: EndFiles | None = None
        """Once the job has ended."""
        self._starter = agent
        self._record_within_s: float = order["record_within_s"]
        self._recorded = False
        """Whether the agent's journal has the end, and no exit record is needed."""
        self._agent: socket.socket | None = agent
        agent.setblocking(False)
        self._listener: socket.socket | None = None
        self._announce_at: float | None = None
        self._identity = process | {"init": identity(pid_of(pidfd), process["boot"])}
        os.fchdir(directory)
        self._announce()

    def _announce(self) -> None:
        """Write the file `shim` and listen, for the next agent; retried while the disk is full."""
        self._announce_at = None
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(files.SOCKET)
            listener.bind(files.SOCKET)
            listener.listen(4)
            listener.setblocking(False)
            files.write(self._directory, files.SHIM, self._identity)
        except OSError:
            listener.close()
            self._announce_at = time.monotonic() + RETRY_S
            return
        self._listener = listener

    def run(self) -> bool:
        """Run until the job has ended, its end is recorded and its files are uploaded.

        Returns whether the agent has another job for this process, which holds nothing of this one.
        """
        while (end := self._end_files) is None:
            self._once()
        while not end.write_result():
            self._poll({}, RETRY_S)  # serves only agents
        # The agent first: its journal is as durable, and does not need this disk.
        self._send_end()
        self._await_recorded()
        while not (self._recorded or end.write_exit()):
            self._poll({}, RETRY_S)
            self._send_end()  # another agent may have connected
        self._remove_cgroup()
        while self._work.is_needed(has_agent=self._agent is not None):
            self._poll({}, CHECK_S)
        self._let_go()
        return self._recorded

    def _await_recorded(self) -> None:
        """Wait for the journal of the agent that has started the job, if that asked for it."""
        ended = time.monotonic()
        while not self._recorded and self._agent is self._starter:
            left_s = ended + self._record_within_s - time.monotonic()
            if left_s <= 0:
                return
            self._poll({}, left_s)

    def _let_go(self) -> None:
        """Close what is the job's; its directory last, whose lock the next agent goes by."""
        if self._listener is not None:
            with contextlib.suppress(OSError):
                os.unlink(files.SOCKET)
            self._listener.close()
        os.chdir("/")
        self._log.close()
        for fd in (self._init, *self._held, self._directory):
            os.close(fd)

    def _once(self) -> None:
        """Wait for one event and handle it."""
        now = time.monotonic()
        ends = [now + CHECK_CLOCK_S, now + self._until - boottime()]
        timers = (self._output.flush_at, self._kill_at, self._announce_at, self._heartbeat_at())
        ends += [at for at in timers if at]
        reads_line = self._line.fileno() >= 0 and now >= self._line_paused_until
        if self._line.fileno() >= 0 and not reads_line:
            ends.append(self._line_paused_until)
        watched = dict.fromkeys((self._sandbox.fileno(), *self._output.descriptors), select.POLLIN)
        if reads_line:
            watched[self._line.fileno()] = self._line.events
        news = self._poll(watched, max(0.0, min(ends) - now))
        for fd in self._output.descriptors:
            if fd in news:
                self._read(fd)
        if reads_line and self._line.fileno() in news:
            self._line_paused_until = time.monotonic() + self._line.pump(time.monotonic())
            self._send_progress()
        self._check_clock()
        if self._sandbox.fileno() in news:
            self._hear()

    def _poll(self, watched: dict[int, int], pause_s: float) -> set[int]:
        """Wait for one of these events, by descriptor; serves agents meanwhile."""
        poll = select.poll()
        for fd, events in watched.items():
            poll.register(fd, events)
        if self._listener is not None:
            poll.register(self._listener, select.POLLIN)
        if self._agent is not None:
            poll.register(self._agent, select.POLLIN)
        ready = {fd for fd, _ in poll.poll(pause_s * 1000)}
        if self._agent is not None and self._agent.fileno() in ready:
            self._on_request()
        if self._listener is not None and self._listener.fileno() in ready:
            self._accept(self._listener)
        return ready

    def _check_clock(self) -> None:
        now = time.monotonic()
        if self._output.flush_at is not None and now >= self._output.flush_at:
            self._output.flush()
            self._tell_grown()
        if self._announce_at is not None and now >= self._announce_at:
            self._announce()
        if not self._lease_lost and boottime() >= self._until:
            self._lease_lost = True
            self._kill()
        if self._kill_at is not None and now >= self._kill_at:
            # Long past its timeout: its init has failed to end it.
            self._kill_at = None
            self._kill()
        if (silent_at := self._heartbeat_at()) is not None and now >= silent_at:
            self._silent = True
            self._stop("timeout", self._grace_s)

    def _heartbeat_at(self) -> float | None:
        """When the job is stopped unless it writes something on its line before."""
        if self._heartbeat_s is None or self._silent or self._main_ended:
            return None
        # What waits while the line is not read was written in time.
        return max(self._line.heard_at, self._line_paused_until) + self._heartbeat_s

    def _read(self, fd: int) -> None:
        self._output.read(fd)
        self._tell_grown()
        if self._main_ended and not self._output.descriptors:
            self._sandbox.say_drained()

    def _tell_grown(self) -> None:
        if self._wanted is not None and self._log.size > self._wanted:
            self._wanted = None
            self._send({"is": "grown"})

    def _accept(self, listener: socket.socket) -> None:
        """Accept an agent, in place of an earlier one; other users are refused."""
        with contextlib.suppress(OSError):
            agent, _ = listener.accept()
            if not is_ours(agent):
                agent.close()
                return
            if self._agent is not None:
                self._agent.close()
            agent.setblocking(False)
            self._agent = agent
            self._progress_wanted, self._progress_sent = False, 0
            self._send_end()

    def _on_request(self) -> None:
        """Carry out the agent's request; the agent may disconnect at any time."""
        if self._agent is None:
            return
        try:
            body = self._agent.recv(wire.PACKET)
        except BlockingIOError:
            return
        except ConnectionError:
            body = b""
        if not body:
            self._agent.close()
            self._agent = None
            return
        self._carry_out(json.loads(body.decode()))

    def _carry_out(self, message: "dict[str, Any]") -> None:
        match message["do"]:
            case "renew":
                self._until = max(self._until, message["until"])
            case "want":
                self._wanted = message["size"]
                self._tell_grown()
            case "want_progress":
                self._progress_wanted = True
                self._send_progress()
            case "stop" if self._end_files is None:
                self._stop(message["why"], message["grace_s"])
            case "kill":
                self._kill()
            case "send_work" if self._agent is not None:
                self._work.send(self._agent)
            case "release":
                self._record_within_s = 0.0
                self._work.release()
            case "recorded" if self._end_files is not None:
                self._recorded = self._agent is self._starter
                self._work.release()

    def _send(self, message: "dict[str, Any]") -> None:
        if self._agent is not None:
            with contextlib.suppress(OSError):  # an agent that does not read finds the files later
                self._agent.send(json.dumps(message).encode(), socket.MSG_NOSIGNAL)

    def _send_progress(self) -> None:
        """Send the job's progress to an agent that wants it, if there is something new."""
        said = self._said
        if said.progress is not None and said.progress_number != self._progress_seen:
            self._progress_seen = said.progress_number
            self._progress = {"said": said.progress, "at": time.time_ns() // 1_000_000}
        if self._progress_wanted and self._progress_seen != self._progress_sent:
            self._progress_wanted, self._progress_sent = False, self._progress_seen
            self._send({"is": "progress", **self._progress})

    def _stop(self, why: str, grace_s: float) -> None:
        """Stop the job; the first reason is what it hears, before the signal that makes it ask."""
        self._said.stopping = self._said.stopping or why
        self._sandbox.stop(grace_s)

    def _kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._init, signal.SIGKILL)

    def _hear(self) -> None:
        """Hear of the job's init: that its main process has ended, or all."""
        ending = self._sandbox.receive()
        if ending is not None:
            self._conclude(ending)
            return
        self._main_ended = True
        if not self._output.descriptors:
            self._sandbox.say_drained()

    def _conclude(self, ending: Ending) -> None:
        """Read the remaining output and make the exit record; all processes of the job are dead."""
        self._output.finish()
        if ending.left:
            self._log.note(LEFT, time.time_ns() // 1_000_000)
        self._line.finish()
        said = self._said
        ending = dataclasses.replace(
            ending,
            error=None if ending.error is None else self._secrets.mask(ending.error),
            condition=said.condition,
            failure=said.error,
            skip=said.skip,
            silent=self._silent and ending.stopped,
            records=self._log.seq,
            output_bytes=self._log.output,
            lease_lost=self._lease_lost,
        )
        self._end_files = EndFiles(self._directory, ending, said.result)

    def _send_end(self) -> None:
        """Send the end to an agent, if the job has ended."""
        if self._end_files is not None:
            self._send({"is": "ended", **self._end_files.record})

    def _remove_cgroup(self) -> None:
        """Remove the cgroup, if there is one: the launcher that would do it may have ended."""
        if self._leaf is None:
            return
        poll = select.poll()
        poll.register(self._init, select.POLLIN)
        poll.poll(EMPTY_S * 1000)
        with contextlib.suppress(OSError):
            self._leaf.rmdir()
