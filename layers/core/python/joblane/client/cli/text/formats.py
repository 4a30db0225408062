"""Values as text for people: times, durations, sizes, and text without control characters."""

from collections.abc import Mapping
from datetime import UTC, datetime


def printable(value: object) -> str:
    """Show a value in one line; control characters become escapes as in Python."""
    text = value if isinstance(value, str) else plain(value)
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def plain(value: object) -> str:
    """Show a value in one line, control characters included: `-` for None, yes and no."""
    match value:
        case None:
            return "-"
        case bool():
            return "yes" if value else "no"
        case float():
            return str(value).removesuffix(".0")
        case Mapping():
            given = {key: item for key, item in value.items() if item not in (None, [], {})}
            return " ".join(f"{key}={plain(item)}" for key, item in given.items()) or "-"
        case list() | tuple():
            return ",".join(plain(item) for item in value) or "-"
        case _:
            return str(value)


def record(values: Mapping[str, object]) -> str:
    """Show named values, one per line."""
    width = max([12, *map(len, values)])
    return "\n".join(
        f"{printable(name):<{width}} {printable(value)}" for name, value in values.items()
    )


def parse_time(value: object) -> datetime | None:
    """Read an RFC 3339 time; None for anything else."""
    if not isinstance(value, str):
        return None
    try:
        found = datetime.fromisoformat(value)
    except ValueError:
        return None
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def age(value: object, now: datetime) -> str:
    """Time since then in its largest unit: 20s, 5m, 3d."""
    then = parse_time(value)
    if then is None:
        return "-"
    return _largest(max((now - then).total_seconds(), 0))


def relative_time(value: object, now: datetime) -> str:
    """Distance to a time in its largest unit: 5m ago, in 20s."""
    then = parse_time(value)
    if then is not None and then > now:
        return f"in {_largest((then - now).total_seconds())}"
    return f"{age(value, now)} ago"


def timestamp(value: object, now: datetime) -> str:
    """Show a time and its distance."""
    then = parse_time(value)
    if then is None:
        return plain(value)
    return f"{value} ({relative_time(value, now)})"


def duration(seconds: float) -> str:
    """Show seconds: 250ms, 1.5s, 3m05s, 2h10m, 3d04h."""
    seconds = max(seconds, 0)
    if seconds < 1:
        return f"{seconds * 1000:.0f}ms"
    if seconds < 60:
        return f"{seconds:.1f}s".replace(".0s", "s")
    minutes, rest = divmod(int(seconds), 60)
    if minutes < 60:
        return f"{minutes}m{rest:02}s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours}h{minutes:02}m" if hours < 24 else f"{hours // 24}d{hours % 24:02}h"


def _largest(seconds: float) -> str:
    for unit, length in (("d", 86_400), ("h", 3600), ("m", 60)):
        if seconds >= length:
            return f"{seconds // length:.0f}{unit}"
    return f"{seconds:.0f}s"


def size(count: float) -> str:
    """Show bytes in binary units: 512 B, 1.5 MiB."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if count < 1024:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:.1f} TiB"
