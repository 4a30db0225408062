"""Exit codes of the command line, and how a job's end becomes one."""

from typing import Final

from client.errors import (
    AccessError,
    AnswerError,
    ConfigError,
    InputError,
    JoblaneError,
    LoginError,
    NotFoundError,
    RequestError,
)
from client.wire import JobJson

INTERNAL: Final = 1
USAGE: Final = 2
REFUSED: Final = 64
NOT_FOUND: Final = 66
UNAVAILABLE: Final = 69
NO_EXIT_CODE: Final = 70
IO_ERROR: Final = 74
BAD_ANSWER: Final = 76
NOT_ALLOWED: Final = 77
NOT_CONFIGURED: Final = 78
TIMED_OUT: Final = 124
SIGNAL: Final = 128
INTERRUPTED: Final = 130
BROKEN_PIPE: Final = 141

EPILOG: Final = """\b
Exit codes
    0  done
    1  a bug in joblane itself
    2  the command line is wrong
   64  the request cannot be sent, or the API refused it (400, 409, 413, ...)
   66  no such job (404)
   69  the API cannot be reached, fails, or stayed away for too long
   74  the output cannot be written
   76  what answered is not a Joblane API
   77  not logged in, or the token expired or lacks a scope (401, 403)
   78  the URL, the token, the profile or its files are missing or cannot be used
  130  interrupted (Ctrl-C)
  141  whoever read the output has gone"""

RUN_EPILOG: Final = """\b
Exit codes
  The job's own, when it ran to an end. Otherwise a line on stderr begins with "joblane:" and
  124  the job ran into its timeout
  128+N  signal N ended it (137: killed, such as for its memory)
   70  it ended without an exit code: it never ran, or its agent was lost
  130  interrupted (Ctrl-C); a line on stderr says whether the job goes on
   64, 66, 69, 74, 76, 77, 78  as in `joblane --help`"""


_BY_CLASS: Final[tuple[tuple[type[JoblaneError], int], ...]] = (
    (ConfigError, NOT_CONFIGURED),
    (InputError, REFUSED),
    (RequestError, REFUSED),
    (AccessError, NOT_ALLOWED),
    (LoginError, NOT_ALLOWED),
    (NotFoundError, NOT_FOUND),
    (AnswerError, BAD_ANSWER),
    (JoblaneError, UNAVAILABLE),
)


def of_error(error: JoblaneError) -> int:
    """Exit code of an error."""
    return next(code for kind, code in _BY_CLASS if isinstance(error, kind))


def of_job(job: JobJson) -> int:
    """Exit code of `run` for a job that has ended."""
    if job.get("state") == "completed":
        return _number(job.get("exit_code")) or 0
    signal = _number(job.get("signal"))
    if job.get("outcome") == "timed_out":
        return TIMED_OUT
    if signal:
        return (SIGNAL + signal) & 0xFF
    # A job that left with 0 and still did not complete has not succeeded.
    return (_number(job.get("exit_code")) or 0) & 0xFF or NO_EXIT_CODE


def _number(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None
