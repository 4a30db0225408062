"""The SDK for asyncio: `AsyncClient`, and `AsyncJob`, its handle of a job.

async with AsyncClient(url, token) as client:
    job = await client.submit(["make", "test"], timeout_s=300)
    async for record in job.logs(follow=True):
        print(record.text, end="")
    print((await job.wait()).exit_code)
"""

from collections.abc import AsyncGenerator
from typing import Self

from joblane.client.answers import JobJson, LogRecord
from joblane.client.base import BaseClient, JobValues
from joblane.client.connection import AsyncConnection


class AsyncJob(JobValues["AsyncClient"]):
    """A job as it was when it was last read, with the calls that concern it."""

    async def refresh(self) -> Self:
        """Read the job again. Returns itself."""
        self.data = (await self._client.get(self.id)).data
        return self

    async def wait(self, timeout_s: float | None = None) -> Self:
        """Wait until the job has ended, see `Client.wait`. Returns itself."""
        self.data = (await self._client.wait(self.id, timeout_s)).data
        return self

    def logs(self, *, follow: bool = False) -> AsyncGenerator[LogRecord, None]:
        """Yield the records of the job's output, see `Client.logs`."""
        return self._client.logs(self.id, follow=follow)


class AsyncClient(BaseClient[AsyncJob, AsyncConnection]):
    """A client of the API for asyncio: the methods of `Client`, to be awaited.

    Methods that yield (`list`, `logs`, `follow`, `requeue`, `restart_failed`) are used with
    `async for`. Tasks may share a client. A cancelled call sends nothing more; the API may have
    acted on a request that was already sent, as with `UnreachableError`.
    """

    _connect = AsyncConnection

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections that are kept open."""
        await self._connection.close()

    def _handle(self, data: JobJson) -> AsyncJob:
        return AsyncJob(self, data)
