"""The root of the errors that stores and services raise.

    Failure                retryable: whether the same call may succeed later
    ├── Unavailable        AWS did not do what was asked (`joblane.aws.errors`)
    ├── Changed            a row is not as it was read
    ├── Problem            a request is refused (`joblane.contract.problems`)
    └── the others         each beside what raises it

Texts that cannot be read as what they should be are ValueErrors, which pydantic reports.
"""

from typing import ClassVar


class Failure(Exception):
    """Something was not done; the text says what is wrong."""

    retryable: ClassVar[bool] = False
    """Whether the same call may succeed later, without anybody changing anything."""


class Unavailable(Failure):
    """A service did not do what was asked: it refused, failed or did not answer.

    Its text may name what belongs to the deployment, so it is for logs only.
    """

    retryable = True

    @property
    def code(self) -> str | None:
        """The name that the service gave to the error; None if it did not answer."""
        return None


class Changed(Failure):
    """A row is not as it was read: read it again and decide again.

    The text is for the caller, if it changes on every try (`joblane.service.decide_again`).
    """

    retryable = True
