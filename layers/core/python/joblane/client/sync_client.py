"""The SDK: `Client`, and `Job`, its handle of a job.

    with Client(url, token) as client:
        job = client.submit(["make", "test"], timeout_s=300)
        for record in job.logs(follow=True):
            print(record.text, end="")
        print(job.wait().exit_code)

Each method raises a `joblane.JoblaneError`; reads have been retried before.
"""

from collections.abc import Iterator
from typing import Self

from joblane.client.answers import JobJson, LogRecord
from joblane.client.base import BaseClient, JobValues
from joblane.client.connection import Connection


class Job(JobValues["Client"]):
    """A job as it was when it was last read, with the calls that concern it."""

    def refresh(self) -> Self:
        """Read the job again. Returns itself."""
        self.data = self._client.get(self.id).data
        return self

    def wait(self, timeout_s: float | None = None) -> Self:
        """Wait until the job has ended, see `Client.wait`. Returns itself."""
        self.data = self._client.wait(self.id, timeout_s).data
        return self

    def logs(self, *, follow: bool = False) -> Iterator[LogRecord]:
        """Yield the records of the job's output, see `Client.logs`."""
        return self._client.logs(self.id, follow=follow)


class Client(BaseClient[Job, Connection]):
    """A client of the API at `url`, such as `https://abc.execute-api.eu-west-1.amazonaws.com`.

    `token` is a bearer token or a source of tokens. Raises `ConfigError` when the URL, the token
    or the certificate is invalid. Not safe for several threads at once.
    """

    _connect = Connection

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections that are kept open."""
        self._connection.close()

    def _handle(self, data: JobJson) -> Job:
        return Job(self, data)
