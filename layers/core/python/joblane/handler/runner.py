"""The program of a typed job: runs a handler with the params that its agent sends.

    python -I -u /opt/joblane/type package.module:function

Exit codes: 0 with the result sent, or after `Job.skip`; 1 after an exception; 65 when a retry
cannot help (`PermanentError`, params or a result that are not valid, a handler that cannot be
imported); 75 after `Job.block`; another one if the handler calls `sys.exit`.
"""

import signal
import sys
import traceback
from collections.abc import Callable
from types import TracebackType
from typing import Any, Final, NoReturn

from pydantic import ValidationError

from joblane.handler.collect import CollectError, load
from joblane.handler.errors import BlockedError, PermanentError, SkippedError
from joblane.handler.job import Context, Job
from joblane.handler.job_type import JobType
from joblane.handler.levels import ERROR, mark
from joblane.handler.line import Line, LineError, RefusedError

FAILED: Final = 1
PERMANENT: Final = 65
BLOCKED: Final = 75

MAX_RESULT_BYTES: Final = 262_144
"""Longest result, as JSON in UTF-8."""

MAX_ERROR: Final = 160
"""Characters of an error that the agent keeps."""


class _EndError(Exception):
    """The attempt ends with an exit code; the text is the error."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code = code


def main() -> NoReturn:
    """Run the handler that the first argument names, and exit."""
    if len(sys.argv) != 2:
        sys.exit("usage: python <bundle> package.module:function")
    try:
        line = Line.from_env()
    except LineError as error:
        sys.exit(str(error))
    sys.exit(run(sys.argv[1], line))


def run(entry: str, line: Line) -> int:
    """Run the handler of an entry. Returns the exit code."""
    return run_handler(lambda: _load(entry), line, _cancel_at_sigterm)


def run_handler(
    load: Callable[[], JobType[Any, Any]],
    line: Line,
    listen: Callable[[Job], None] = lambda _job: None,
) -> int:
    """Run a handler; `listen` is handed the job before the handler is loaded. As `run`."""
    try:
        return _attempt(load, line, listen)
    except _EndError as end:
        _print_error(str(end))
        _report(line, str(end))
        return end.code
    except (LineError, RefusedError) as error:
        _print_error(str(error))
        _report(line, str(error))
        return FAILED


def _cancel_at_sigterm(job: Job) -> None:
    signal.signal(signal.SIGTERM, lambda _number, _frame: job.cancel())


def _attempt(
    load: Callable[[], JobType[Any, Any]], line: Line, listen: Callable[[Job], None]
) -> int:
    params = line.ask({"params": True}).get("params")
    job = Job(line, Context.of(line.ask({"context": True})))
    listen(job)
    handler = load()
    try:
        validated = handler.load_params(params)
    except ValidationError as error:
        raise _EndError(PERMANENT, f"invalid {_fields('params', error)}") from error
    if job.cancelled:
        raise _EndError(FAILED, "stopped before the handler started")
    try:
        result = handler(validated, job)
    except BlockedError:
        return BLOCKED
    except SkippedError:
        return 0
    except PermanentError as error:
        _print_trace(error)
        raise _EndError(PERMANENT, str(error) or "PermanentError") from error
    except SystemExit as left:
        if isinstance(left.code, int) and left.code != 0:
            return left.code
        text = "the handler called sys.exit instead of returning"
        raise _EndError(FAILED, text) from left
    except Exception as error:
        _print_trace(error)
        raise _EndError(FAILED, _sentence(error)) from error
    _send_result(handler, result, line)
    return 0


def _load(entry: str) -> JobType[Any, Any]:
    try:
        return load(entry)
    except CollectError as error:
        raise _EndError(PERMANENT, str(error)) from error
    except (PermanentError, ImportError, SyntaxError) as error:
        _print_trace(error)
        text = f"cannot import the handler: {_sentence(error)}"
        raise _EndError(PERMANENT, text) from error
    except Exception as error:
        _print_trace(error)
        raise _EndError(FAILED, f"cannot import the handler: {_sentence(error)}") from error


def _send_result(handler: JobType[Any, Any], result: object, line: Line) -> None:
    try:
        written = handler.dump_result(result)
    except ValidationError as error:
        raise _EndError(PERMANENT, f"invalid {_fields('result', error)}") from error
    except (TypeError, ValueError) as error:
        raise _EndError(PERMANENT, f"invalid result: {error}") from error
    if written is None:
        return
    if len(written) > MAX_RESULT_BYTES:
        text = f"the result has {len(written)} bytes; at most {MAX_RESULT_BYTES} are allowed"
        raise _EndError(PERMANENT, text)
    try:
        line.ask_raw(b'{"result":' + written + b"}")
    except RefusedError as refused:
        raise _EndError(PERMANENT, f"the agent refused the result: {refused}") from refused


def _fields(what: str, error: ValidationError) -> str:
    """Each wrong field with its problem; no values, which may be confidential."""
    listed = error.errors(include_url=False, include_context=False, include_input=False)
    return "; ".join(
        f"{'.'.join([what, *map(str, entry['loc'])])}: {entry['msg']}" for entry in listed
    )


def _sentence(error: BaseException) -> str:
    text = str(error)
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _report(line: Line, error: str) -> None:
    """Tell the agent why the attempt failed; its exit code counts without that too."""
    try:
        line.ask({"error": " ".join(error.split())[:MAX_ERROR]})
    except (LineError, RefusedError):
        return


def _print_trace(error: BaseException) -> None:
    """Print a traceback that begins in the handler."""
    found: TracebackType | None = error.__traceback__
    while found is not None and _is_ours(found):
        found = found.tb_next
    _print_error("".join(traceback.format_exception(type(error), error, found)).rstrip("\n"))


def _print_error(text: str) -> None:
    """Write to the job's output, as an error of its log."""
    print(mark(text, ERROR), file=sys.stderr)  # noqa: T201 - the job's output


def _is_ours(entry: TracebackType) -> bool:
    name = str(entry.tb_frame.f_globals.get("__name__", ""))
    return name.startswith(("joblane.handler.", "importlib", "<frozen"))
