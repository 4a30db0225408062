"""JSON Pointers (RFC 6901), such as `/tickets/0`."""

import re
from typing import Any, Final

PATTERN: Final = r"^(/([^~/]|~[01])*)+$"
"""Every pointer but the empty one, which names the whole document."""

MAX_POINTER: Final = 512
"""Characters of a pointer."""


class NotThere(LookupError):
    """The document has nothing at this pointer."""


def find(document: object, pointer: str) -> Any:  # noqa: ANN401 - whatever JSON has there
    """Return what a document has at a pointer. Raises NotThere."""
    found = document
    for part in parts(pointer):
        if isinstance(found, dict) and part in found:
            found = found[part]
        elif isinstance(found, list) and re.fullmatch(r"0|[1-9][0-9]{0,8}", part):
            try:
                found = found[int(part)]
            except IndexError:
                raise NotThere(pointer) from None
        else:
            raise NotThere(pointer)
    return found


def parts(pointer: str) -> list[str]:
    """The names and indexes that a pointer consists of: `/a~1b/0` is `a/b` and `0`."""
    return [part.replace("~1", "/").replace("~0", "~") for part in pointer.split("/")[1:]]
