"""Marks of levels in a handler's stderr, which the job's shim takes out again.

`ec2_agent/shim/levels.py` describes their form.
"""

from typing import Final

MARK: Final = "\x1e"

ERROR: Final = 40
"""The number of `logging.ERROR`; a handler that does not log does not import logging."""

DIGITS: Final = ((50, "2"), (ERROR, "3"), (30, "4"), (20, "6"))
"""The digit of syslog from each of logging's numbers on; below them it is 7."""


def mark(text: str, number: int) -> str:
    """Give each line of a text the level of a number of `logging`.

    Each has its own mark, so a line of the text is never without a level or of another one,
    whatever the text contains.
    """
    digit = next((digit for least, digit in DIGITS if number >= least), "7")
    begin = MARK + digit
    return begin + text.replace(MARK, " ").replace("\n", "\n" + begin)
