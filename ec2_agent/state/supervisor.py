"""Starts the state service, checks its health, and starts it again when it has ended."""

import asyncio
import json
import os
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass

from ec2_agent.errors import CannotStart
from ec2_agent.state import events
from ec2_agent.state.client import NotReached, StateClient, StateRefused
from ec2_agent.state.files import EX_CANTCREAT, StateFiles
from ec2_agent.state.pool import NoDescriptor
from ec2_agent.state.settings import StateSettings
from joblane.formats.text import shorten
from joblane.state.lease import StatePool

LOG_BYTES = 1024 * 1024
"""A log larger than this is removed when the service starts."""

SOCKET_PATH_BYTES = 107
"""man 7 unix: sun_path has 108 bytes, and one ends it."""

LAST_CHARS = 600
"""Characters that are quoted of the end of a log."""

HUNG_AFTER = 3
"""A service that does not answer this many health checks in a row is killed and restarted."""

_SILENT = "the state service does not answer"


@dataclass(frozen=True, slots=True)
class StateLocation:
    """Where a service stores its records, and for which agent."""

    files: StateFiles
    owner: str
    """The agent's name."""
    table: str
    """The agents table, for the backend `dynamodb`."""


class StateSupervisor:
    """Runs one state service while the agent runs."""

    def __init__(
        self,
        location: StateLocation,
        settings: StateSettings,
        on_change: Callable[[], object] = lambda: None,
    ) -> None:
        """`on_change` is called when `trouble` has changed."""
        self._location = location
        self._settings = settings
        self._process: asyncio.subprocess.Process | None = None
        self._ended: asyncio.Task[int] | None = None
        self.client = StateClient(location.files.socket, settings)
        self.trouble: str | None = "the state service has not been started"
        """Why the agent must take no jobs; None while the service is healthy."""
        self._on_change = on_change

    async def start(self) -> None:
        """Start the service and wait until it is healthy.

        Raises CannotStart after `start_tries` tries, `start_interval` seconds apart.
        """
        path = self._location.files.socket
        if (length := len(os.fsencode(path))) > SOCKET_PATH_BYTES:
            raise CannotStart(
                f"the path of the state service's socket has {length} bytes, and the kernel allows "
                f"{SOCKET_PATH_BYTES}: {path}; name a shorter state directory"
            )
        try:
            self._location.files.directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        except OSError as error:
            raise CannotStart(f"no directory for the state service: {error}") from None
        why = ""
        for n in range(self._settings.start_tries):
            if n:
                await asyncio.sleep(self._settings.start_interval)
            if self._ended is None or self._ended.done():
                if self._ended is not None and self._ended.result() == EX_CANTCREAT:
                    why = "it cannot use its files"
                    break  # a retry would fail as well
                await self._spawn()
            why = await self._check_health() or ""
            if not why:
                self._set_trouble(None)
                return
        await self.stop()
        files = self._location.files
        raise CannotStart(
            f"the state service did not become healthy: {why}; {self._last_log_line()}"
            f"check its log {files.log}, its socket {files.socket} and the disk"
        )

    async def supervise(self) -> None:
        """Supervise the service until cancelled.

        It is restarted as soon as it has ended; its health is checked every `reconnect` seconds,
        and after each outage it is sent the agent's records again.
        """
        silent = 0
        while True:
            died = await self._wait_end(self._settings.reconnect)
            if died:
                self._set_trouble("the state service ended")
                await self._spawn()
            why = await self._check_health()
            silent = silent + 1 if why is not None and why.startswith(_SILENT) else 0
            if silent >= HUNG_AFTER and self._process is not None:
                events.state_hangs()
                with suppress(ProcessLookupError):
                    self._process.kill()
                silent = 0
            if why is None and self.trouble is not None:
                why = await self._resync()
            self._set_trouble(why)

    async def stop(self) -> None:
        """Close the connections and the service's standard input, which ends it."""
        await self.client.close()
        if self._process is None or self._ended is None:
            return
        if self._process.stdin is not None:
            self._process.stdin.close()
        try:
            async with asyncio.timeout(self._settings.shutdown_timeout):
                await asyncio.shield(self._ended)
        except TimeoutError:
            events.state_does_not_end()
            with suppress(ProcessLookupError):
                self._process.kill()
            await self._ended

    @property
    def pool(self) -> StatePool:
        """The agent's connections to the service, for its heartbeat."""
        return StatePool(**asdict(self.client.stats()))

    @property
    def pid(self) -> int | None:
        """Process id of the service."""
        return self._process.pid if self._process else None

    async def _spawn(self) -> None:
        with suppress(OSError):
            if self._location.files.log.stat().st_size > LOG_BYTES:
                self._location.files.log.unlink()
        try:
            with self._location.files.log.open("ab") as log:
                process = await asyncio.create_subprocess_exec(
                    *self._command(),
                    stdin=asyncio.subprocess.PIPE,
                    stdout=asyncio.subprocess.PIPE,
                    stderr=log,
                    # Not reached by Ctrl-C in a terminal; it ends with its standard input.
                    start_new_session=True,
                )
        except OSError as error:
            events.state_not_started(error)
            self._ended = asyncio.create_task(_no_process(), name="state service")
            return
        self._process = process
        self._ended = asyncio.create_task(process.wait(), name="state service")
        if process.stdout is not None:
            with suppress(TimeoutError):
                async with asyncio.timeout(self._settings.start_interval):
                    await process.stdout.readline()  # `ready`, or end of file

    def _command(self) -> Sequence[str]:
        settings, location = self._settings, self._location
        command = [sys.executable, "-P", "-m", "ec2_agent.state"]
        command += ["--directory", str(location.files.directory), "--backend", settings.backend]
        if settings.backend == "local":
            command += ["--sync-interval", str(settings.sync_interval)]
        if settings.backend == "dynamodb":
            command += ["--table", location.table, "--owner", location.owner]
            command += ["--region", settings.region] if settings.region else []
        return command

    async def _wait_end(self, seconds: float) -> bool:
        if self._ended is None:
            return True
        if self._ended.done():
            # It ended at once after it was started: pause before the next start.
            await asyncio.sleep(self._settings.start_interval)
            return True
        done, _ = await asyncio.wait({self._ended}, timeout=seconds)
        if done:
            events.state_died(self._ended.result())
        return bool(done)

    async def _check_health(self) -> str | None:
        """Check the health once; returns what is wrong, or None."""
        try:
            health = await self.client.health()
        except NoDescriptor as error:
            return f"cannot connect to the state service: {error}"
        except (NotReached, StateRefused) as error:
            return f"{_SILENT}: {error}"
        if health.pid != self.pid:
            return f"process {health.pid} of another agent listens on {self._location.files.socket}"
        return health.why

    async def _resync(self) -> str | None:
        try:
            await self.client.resync()
        except (NotReached, StateRefused) as error:
            return f"records could not be sent to the state service again: {error}"
        return None

    def _set_trouble(self, why: str | None) -> None:
        if why == self.trouble:
            return
        if why is None:
            events.state_healthy()
        else:
            events.no_new_work(why)
        self.trouble = why
        self._on_change()

    def _last_log_line(self) -> str:
        """Quote the message of the last line of the service's log."""
        with suppress(OSError, IndexError):
            lines = self._location.files.log.read_text(errors="replace").splitlines()
            return f"the end of its log: {shorten(_message(lines[-1]), LAST_CHARS)!r}; "
        return ""


def _message(line: str) -> str:
    """The message of a line of the log; the line itself if it is no event, such as a traceback."""
    try:
        return str(json.loads(line)["message"])
    except (ValueError, TypeError, KeyError):
        return line


async def _no_process() -> int:
    return -1
