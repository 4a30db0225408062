"""Exit codes of the command line: of errors, and of jobs in `joblane run`."""

from typing import Final

from joblane.client.answers import JobJson, is_group
from joblane.client.errors import (
    AccessError,
    AnswerError,
    ConfigError,
    InputError,
    JoblaneError,
    LoginError,
    NotFoundError,
    RequestError,
)

INTERNAL: Final = 1
NOT_ALL: Final = 1
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
    0  success
    1  internal error in joblane
    2  usage error
   64  request invalid or refused by the API (400, 409, 413, ...)
   66  not found (404)
   69  API unavailable: unreachable, failing, or no answer for too long
   74  output cannot be written
   76  the answer is not from a Joblane API
   77  not logged in, or access denied (401, 403)
   78  URL, token, profile or agent missing or invalid
  130  interrupted (Ctrl-C)
  129, 143  ended by SIGHUP, SIGTERM
  141  the reader of the output closed it"""

RUN_EPILOG: Final = """\b
Exit codes
  The exit code of the job. If it has none, a line on stderr begins with "joblane:" and
  124  the job timed out, or its deadline passed
  128+N  signal N ended the job (137: killed, for example by its memory limit)
   70  the job ended without an exit code: it never ran, or its agent was lost
  130  interrupted (Ctrl-C); a line on stderr says whether the job is still running
  129, 143, 141  SIGHUP, SIGTERM or a closed pipe ended the command; the same line on stderr
    1  of a group (--array, --target _all or a label) or of --each: not all jobs completed, or no
       agent matched; 0 if all completed, also if some, but not all, of a group were skipped, or
       as many failed as --tolerate allows
   64, 66, 69, 74, 76, 77, 78  as in `joblane --help`"""


WAIT_EPILOG: Final = """\b
Exit codes
    0  all jobs completed
  124  a job did not end in time, timed out, or its deadline passed
  that of the first job that did not complete, as `joblane run` gives it; 1 for a group
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
    """Exit code of `run` for a job, or a group, that has ended."""
    if is_group(job):
        return 0 if job.get("state") == "completed" else NOT_ALL
    if job.get("state") == "completed":
        return _number(job.get("exit_code")) or 0
    signal = _number(job.get("signal"))
    if job.get("outcome") == "timed_out" or job.get("state") == "expired":
        return TIMED_OUT
    if signal:
        return (SIGNAL + signal) & 0xFF
    # A job that exited with 0 but did not complete (cancelled, for example) has not succeeded.
    return (_number(job.get("exit_code")) or 0) & 0xFF or NO_EXIT_CODE


def _number(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None
