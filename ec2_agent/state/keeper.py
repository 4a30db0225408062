"""Starts the state service, watches it, and starts it again when it dies."""

import asyncio
import os
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass

from ec2_agent.log_event import tell
from ec2_agent.state.client import NotReached, StateClient, StateRefused
from ec2_agent.state.events import (
    NoNewWork,
    StateDied,
    StateDoesNotEnd,
    StateHangs,
    StateHealthy,
    StateNotStarted,
)
from ec2_agent.state.files import EX_CANTCREAT, Files
from ec2_agent.state.pool import NoDescriptor
from ec2_agent.state.settings import StateSettings

LOG_BYTES = 1024 * 1024
"""A log that has grown beyond this is begun anew when the service starts."""

SOCKET_PATH_BYTES = 107
"""man 7 unix: sun_path has 108 bytes, and one ends it."""

HUNG_AFTER = 3
"""A service that leaves so many looks at its health unanswered is killed and started again."""

_SILENT = "the state service does not answer"


class StateUnavailable(Exception):
    """The state service could not be had; the text says what to look at."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a service keeps its records, and for whom."""

    files: Files
    owner: str
    """The agent's name."""
    table: str
    """The agents table, for the backend `dynamodb`."""


class Keeper:
    """Keeps one state service running while the agent does."""

    def __init__(self, place: Place, settings: StateSettings) -> None:
        self._place = place
        self._settings = settings
        self._process: asyncio.subprocess.Process | None = None
        self._ended: asyncio.Task[int] | None = None
        self.client = StateClient(place.files.socket, settings)
        self.trouble: str | None = "the state service has not been started"
        """Why the agent must take no work; None while all is well."""
        self.on_change: Callable[[], None] = lambda: None
        """Called when `trouble` has changed."""

    async def start(self) -> None:
        """Start the service and wait until it is healthy.

        Raises StateUnavailable after `start_tries` tries, `start_interval` seconds apart.
        """
        if len(os.fsencode(self._place.files.socket)) > SOCKET_PATH_BYTES:
            raise StateUnavailable(
                f"the state service's socket {self._place.files.socket} has a longer path than the "
                f"{SOCKET_PATH_BYTES} bytes that the kernel takes: name a shorter state directory"
            )
        try:
            self._place.files.directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        except OSError as error:
            raise StateUnavailable(f"no directory for the state service: {error}") from None
        why = ""
        for n in range(self._settings.start_tries):
            if n:
                await asyncio.sleep(self._settings.start_interval)
            if self._ended is None or self._ended.done():
                if self._ended is not None and self._ended.result() == EX_CANTCREAT:
                    why = "it cannot use its files"
                    break  # another try meets the same
                await self._spawn()
            why = await self._look() or ""
            if not why:
                self._set_trouble(None)
                return
        await self.stop()
        files = self._place.files
        raise StateUnavailable(
            f"the state service did not become healthy: {why}; {self._last_words()}"
            f"look at its log {files.log}, the socket {files.socket}, and the disk that they are on"
        )

    async def keep(self) -> None:
        """Look after the service until cancelled.

        It is started again as soon as it has died; its health is looked at every `reconnect`
        seconds, and it is told again what the agent knows whenever it was away.
        """
        silent = 0
        while True:
            died = await self._died_within(self._settings.reconnect)
            if died:
                self._set_trouble("the state service died")
                await self._spawn()
            why = await self._look()
            silent = silent + 1 if why is not None and why.startswith(_SILENT) else 0
            if silent >= HUNG_AFTER and self._process is not None:
                tell(StateHangs())
                with suppress(ProcessLookupError):
                    self._process.kill()
                silent = 0
            if why is None and self.trouble is not None:
                why = await self._resync()
            self._set_trouble(why)

    async def stop(self) -> None:
        """Close the connections and let the service end: its standard input does."""
        await self.client.close()
        if self._process is None or self._ended is None:
            return
        if self._process.stdin is not None:
            self._process.stdin.close()
        try:
            async with asyncio.timeout(self._settings.shutdown_timeout):
                await asyncio.shield(self._ended)
        except TimeoutError:
            tell(StateDoesNotEnd())
            with suppress(ProcessLookupError):
                self._process.kill()
            await self._ended

    @property
    def pid(self) -> int | None:
        """The service's process."""
        return self._process.pid if self._process else None

    async def _spawn(self) -> None:
        with suppress(OSError):
            if self._place.files.log.stat().st_size > LOG_BYTES:
                self._place.files.log.unlink()
        try:
            with self._place.files.log.open("ab") as words:
                process = await asyncio.create_subprocess_exec(
                    *self._command(),
                    stdin=asyncio.subprocess.PIPE,
                    stdout=asyncio.subprocess.PIPE,
                    stderr=words,
                    # Not reached by Ctrl-C in a terminal; it ends with its standard input.
                    start_new_session=True,
                )
        except OSError as error:
            tell(StateNotStarted(error))
            self._ended = asyncio.create_task(_no_process(), name="state service")
            return
        self._process = process
        self._ended = asyncio.create_task(process.wait(), name="state service")
        if process.stdout is not None:
            with suppress(TimeoutError):
                async with asyncio.timeout(self._settings.start_interval):
                    await process.stdout.readline()  # ready, or its end

    def _command(self) -> Sequence[str]:
        settings, place = self._settings, self._place
        command = [sys.executable, "-P", "-m", "ec2_agent.state"]
        command += ["--directory", str(place.files.directory), "--backend", settings.backend]
        if settings.backend == "local":
            command += ["--sync-interval", str(settings.sync_interval)]
        if settings.backend == "dynamodb":
            command += ["--table", place.table, "--owner", place.owner]
            command += ["--region", settings.region] if settings.region else []
        return command

    async def _died_within(self, seconds: float) -> bool:
        if self._ended is None:
            return True
        if self._ended.done():
            # It died at once after it was started: not again before a pause.
            await asyncio.sleep(self._settings.start_interval)
            return True
        done, _ = await asyncio.wait({self._ended}, timeout=seconds)
        if done:
            tell(StateDied(self._ended.result()))
        return bool(done)

    async def _look(self) -> str | None:
        """What is wrong, as far as one look can tell."""
        try:
            health = await self.client.health()
        except NoDescriptor as error:
            return f"the state service is not asked: {error}"
        except (NotReached, StateRefused) as error:
            return f"{_SILENT}: {error}"
        if health.pid != self.pid:
            return f"process {health.pid}, another agent's, serves {self._place.files.socket}"
        return health.why

    async def _resync(self) -> str | None:
        try:
            await self.client.resync()
        except (NotReached, StateRefused) as error:
            return f"the state service could not be told again: {error}"
        return None

    def _set_trouble(self, why: str | None) -> None:
        if why == self.trouble:
            return
        if why is None:
            tell(StateHealthy())
        else:
            tell(NoNewWork(why))
        self.trouble = why
        self.on_change()

    def _last_words(self) -> str:
        """The last line of the service's log, for whoever reads only ours."""
        with suppress(OSError, IndexError):
            lines = self._place.files.log.read_text(errors="replace").splitlines()
            return f"its last words: {lines[-1][:300]!r}; "
        return ""


async def _no_process() -> int:
    return -1
