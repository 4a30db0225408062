"""Errors of the client.

    JoblaneError
    ├── ConfigError             the URL, the token or another setting is invalid; nothing was sent
    ├── LoginError              no token: refused, expired, login not completed
    ├── InputError              the input cannot be sent: not text, not JSON, not an id
    │   └── FileError           a file here cannot be read, sent or written
    │       └── DownloadError   some output files could not be written; carries `outputs`
    ├── UnreachableError    *   no answer: connection refused, closed, timed out
    ├── AnswerError             an answer that is not from Joblane: wrong URL, a proxy
    ├── ApiError                the API answered with an error; carries `status` and `fields`
    │   ├── RequestError        400, 409, 413, 422 and every other 4xx
    │   │   └── KeyFullError    409: the job's key allows no more jobs; carries the counts
    │   ├── AccessError         401, 403
    │   ├── NotFoundError       404
    │   ├── ThrottledError  *   429; carries `retry_after_s`
    │   └── ServerError     *   5xx
    ├── FollowError             following ended: the API did not answer for too long
    ├── JobFailedError          a job did not complete; carries `job`
    ├── ResultError             a result that is not what the handler declares
    └── WaitTimeoutError        `wait(timeout_s=...)` timed out; the job continues

* retryable: the same call may succeed later. The others are final. Check `error.retryable` rather
than the class.

Reads have been retried for some seconds when one of these is raised. A submission has been retried
only if no connection could be made.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    from joblane.client.files.models import Outputs
    from joblane.client.models import Job


class JoblaneError(Exception):
    """Base of all errors of the client; its text is one sentence for a person."""

    retryable: ClassVar[bool] = False
    """Whether the same call may succeed later."""

    def __reduce__(self) -> tuple[Any, ...]:
        """Copy it without its constructor, which may need more than the text.

        Process pools and task queues send errors pickled: one that cannot be read breaks the pool.
        """
        return _remake, (type(self), self.args), self.__dict__


def _remake(kind: type[JoblaneError], args: tuple[Any, ...]) -> JoblaneError:
    made = kind.__new__(kind, *args)
    made.args = args
    return made


class ConfigError(JoblaneError):
    """The URL, the token or another setting is invalid; nothing was sent."""


class LoginError(JoblaneError):
    """No token: the issuer refused, the login expired or was not completed."""


class InputError(JoblaneError):
    """The input cannot be sent: not text, not JSON, not an id. Nothing was sent."""


class FileError(InputError):
    """A file here cannot be read, sent or written; the text names it."""


class DownloadError(FileError):
    """Some output files could not be written; all others were."""

    def __init__(self, outputs: "Outputs") -> None:
        more = f"; {len(outputs.failed) - 1} more could not be" if outputs.failed[1:] else ""
        super().__init__(f"{outputs.failed[0][1]}{more}; {len(outputs.files)} files were written")
        self.outputs = outputs
        """What was written, in `files`, and in `failed` what was not."""


class UnreachableError(JoblaneError):
    """No answer: the connection was refused or closed, or timed out."""

    retryable = True

    def __init__(self, message: str, *, sent: bool = True) -> None:
        super().__init__(message)
        self.sent = sent
        """False when no connection could be made, so that the API saw nothing of the request."""


class AnswerError(JoblaneError):
    """The answer is not from a Joblane API."""


@dataclass(frozen=True, slots=True)
class FieldProblem:
    """One field that the API refused."""

    field: str
    """Path of the field, such as `retry.max_attempts`."""
    problem: str


class ApiError(JoblaneError):
    """The API answered with an error (RFC 9457, or API Gateway's own `{"message": ...}`)."""

    def __init__(
        self,
        message: str,
        *,
        status: int,
        title: str = "",
        fields: tuple[FieldProblem, ...] = (),
        request_id: str | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        """HTTP status, 400 to 599."""
        self.title = title or message
        """The message without the detail, which repeats the fields."""
        self.fields = fields
        self.request_id = request_id
        """Request id in the API's log; None if the answer had none."""


class RequestError(ApiError):
    """The request is invalid, or conflicts with the state of a job or queue."""


class KeyFullError(RequestError):
    """The key of the job allows no more jobs now; nothing was submitted."""

    reason: str = ""
    """`active-limit`: jobs of the key run. `queue-depth`: as many wait as may."""
    active: int = 0
    """Jobs that have a slot of the key."""
    queued: int = 0
    """Jobs that wait for one."""
    limit: int = 0
    """How many there may be in all."""


class AccessError(ApiError):
    """The token is missing, has expired, or lacks a scope."""


class NotFoundError(ApiError):
    """The job or path does not exist."""


class ThrottledError(ApiError):
    """Too many requests."""

    retryable = True
    retry_after_s: float | None = None
    """Delay that the API asks for, in seconds; None if not stated."""


class ServerError(ApiError):
    """The API or a gateway in front of it failed."""

    retryable = True


class FollowError(JoblaneError):
    """The API did not answer for too long; `cursor` resumes where following stopped."""

    cursor: str | None = None


class JobFailedError(JoblaneError):
    """The job ended in another state than completed.

    Raised by `wait` with `check`, by `wait` of a handler's job, which has no result then, and by
    `result()` of what `map` yields.
    """

    def __init__(self, message: str, *, job: "Job") -> None:
        super().__init__(message)
        self.job = job
        """The job as the API answered it; `job.state` and `job.reason` say how it ended."""


class ResultError(JoblaneError):
    """The job's result is not what the handler declares in this program."""


class WaitTimeoutError(JoblaneError, TimeoutError):
    """The job did not end in time; it continues."""
