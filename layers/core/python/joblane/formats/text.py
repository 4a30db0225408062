"""Checks of text that people write."""


def one_line(value: str) -> str:
    """Return the text. Raises ValueError for control characters, line ends included."""
    if not value.isprintable():
        raise ValueError("must be one line without control characters")
    return value
