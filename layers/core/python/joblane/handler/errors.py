"""What ends a handler early."""


class PermanentError(Exception):
    """The job cannot succeed: raised by a handler, it ends the job as failed, without a retry.

    Its text is the job's reason.
    """


class SkippedError(BaseException):
    """Raised by `Job.skip`: the job does not apply where it runs.

    Not an `Exception`, as `BlockedError`.
    """


class BlockedError(BaseException):
    """Raised by `Job.block`: the job is to wait for a condition.

    Not an `Exception`, so that a handler's `except Exception` does not catch it.
    """
