"""JSON Pointers (RFC 6901)."""

from typing import Any


class PointsNowhere(ValueError):
    """A pointer leads to nothing in a document; the text says where it ends."""


def parse_pointer(text: str) -> tuple[str, ...]:
    """The steps of a pointer. Raises ValueError for a text that is none.

    The pointer to the whole document, the empty text, is refused: it names no part of it.
    """
    if not text.startswith("/"):
        raise ValueError('must be a JSON Pointer: it begins with "/"')
    steps = text[1:].split("/")
    for step in steps:
        if "~" in step.replace("~0", "").replace("~1", ""):
            raise ValueError('must be a JSON Pointer: "~" is written "~0", and "/" "~1"')
    return tuple(step.replace("~1", "/").replace("~0", "~") for step in steps)


def resolve(document: object, pointer: str) -> Any:
    """What a pointer leads to in a document of dicts, lists and scalars. Raises PointsNowhere."""
    found: Any = document
    for step in parse_pointer(pointer):
        if isinstance(found, dict) and step in found:
            found = found[step]
        elif isinstance(found, list | tuple) and _is_index(step) and int(step) < len(found):
            found = found[int(step)]
        else:
            raise PointsNowhere(f"{pointer} leads to nothing there")
    return found


def _is_index(step: str) -> bool:
    return step == "0" or (step.isascii() and step.isdigit() and not step.startswith("0"))
