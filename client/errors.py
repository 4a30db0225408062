"""What can go wrong between a caller and the API.

    JoblaneError
    ├── ConfigError             the URL or the token cannot be one; nothing was sent
    ├── LoginError              no token is to be had: refused, expired, the login page was left
    ├── InputError              what should be sent cannot be: not text, not JSON, not an id
    ├── UnreachableError    *   no answer: refused, cut off, timed out
    ├── AnswerError             an answer that is not Joblane's: wrong URL, a proxy's page
    ├── ApiError                the API answered with an error; carries `status` and `fields`
    │   ├── RequestError        400, 409, 413, 422 and every other 4xx
    │   ├── AccessError         401, 403
    │   ├── NotFoundError       404
    │   ├── ThrottledError  *   429; carries `retry_after_s`
    │   └── ServerError     *   5xx
    ├── FollowError             following ended because the API stayed away for too long
    └── WaitTimeoutError        `wait(timeout_s=...)` passed; the job goes on

* retryable: asking again later may work. The others are final. Read `error.retryable`; the
class may change.

Reads were already retried for some seconds when one of these is raised; a submission never was
unless the connection was refused before anything was sent.
"""

from dataclasses import dataclass
from typing import ClassVar


class JoblaneError(Exception):
    """Anything that Joblane's client raises; its text is one sentence for a person."""

    retryable: ClassVar[bool] = False
    """True when the same call may succeed later."""


class ConfigError(JoblaneError):
    """The URL, the token or another setting cannot be used; nothing was sent."""


class LoginError(JoblaneError):
    """No token is to be had: the issuer refused, the login expired or was left."""


class InputError(JoblaneError):
    """What should be sent cannot be: not text, not JSON, not an id. Nothing was sent."""


class UnreachableError(JoblaneError):
    """No answer came: the connection was refused, was cut off or took too long."""

    retryable = True

    def __init__(self, message: str, *, sent: bool = True) -> None:
        super().__init__(message)
        self.sent = sent
        """False when there was no connection, so that the API saw nothing of the request."""


class AnswerError(JoblaneError):
    """Something answered that does not speak Joblane's API."""


@dataclass(frozen=True, slots=True)
class FieldProblem:
    """One field that the API refused."""

    field: str
    """Path to it, such as `retry.max_attempts`."""
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
        """The message without its detail, which repeats the fields."""
        self.fields = fields
        self.request_id = request_id
        """What to look for in the API's own log; None when the answer had none."""


class RequestError(ApiError):
    """The request is wrong, and would be again."""


class AccessError(ApiError):
    """The token is missing, has expired, or lacks a scope."""


class NotFoundError(ApiError):
    """There is no such job or path."""


class ThrottledError(ApiError):
    """Too many requests."""

    retryable = True
    retry_after_s: float | None = None
    """Seconds that the API asks to wait; None when it did not say."""


class ServerError(ApiError):
    """The API failed, or stood behind something that did."""

    retryable = True


class FollowError(JoblaneError):
    """The API stayed away for too long; `cursor` resumes where the reader stopped."""

    def __init__(self, message: str, *, cursor: str | None = None) -> None:
        super().__init__(message)
        self.cursor = cursor


class WaitTimeoutError(JoblaneError, TimeoutError):
    """The job had not ended in time; it goes on."""
