"""Checks of text that people write."""


def one_line(value: str) -> str:
    """Return the text. Raises ValueError for control characters, line ends included."""
    if not value.isprintable():
        raise ValueError("must be one line without control characters")
    return value


def shorten(text: str, chars: int) -> str:
    """Cut a longer text at a word and end it with an ellipsis."""
    if len(text) <= chars:
        return text
    return text[: chars - 1].rsplit(" ", 1)[0] + "\u2026"
