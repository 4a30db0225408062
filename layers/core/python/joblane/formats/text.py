"""Text: checks of what people write, and words for durations and numbers."""


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


def span(seconds: float) -> str:
    """Show a duration in one or two units: 4 s, 5 min, 2 h 10 min, 3 d 4 h."""
    left = max(0, round(seconds))
    if left < 120:
        return f"{left} s"
    minutes = left // 60
    if minutes < 60:
        return f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    if hours < 24:
        return f"{hours} h {minutes} min" if minutes else f"{hours} h"
    days, hours = divmod(hours, 24)
    return f"{days} d {hours} h" if hours else f"{days} d"


def some(count: int, what: str) -> str:
    """Show a number of things: 1 agent, 3 agents."""
    return f"{count} {what}" if count == 1 else f"{count} {what}s"
