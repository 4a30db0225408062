"""JSON as the body of an SQS message."""

from typing import Final

_REFUSED: Final = str.maketrans({"\ufffe": r"\ufffe", "\uffff": r"\uffff"})


def sqs_text(text: str) -> str:
    """Return a JSON text without the two characters that JSON has and SQS refuses, escaped.

    A job may have them in what it was submitted with, or fails with. A message that is refused each
    time it is sent would stop the reader of a stream that sends it.
    """
    return text.translate(_REFUSED)
