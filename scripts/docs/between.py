"""Writes a part of a page that people write the rest of."""


def between(text: str, begin: str, part: str, end: str) -> str:
    """Put `part` between the two marks of a page, in place of what is there."""
    before, _, rest = text.partition(begin)
    _, _, after = rest.partition(end)
    return f"{before}{begin}{part}{end}{after}"
