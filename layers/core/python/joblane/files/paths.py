"""Paths of files in a job's work directory: which ones are allowed."""

import re
from collections.abc import Iterable
from typing import Final

MAX_PATH_BYTES: Final = 1024
"""Longest path, as UTF-8."""

MAX_OUTPUT_PATH_BYTES: Final = 900
"""Longest path of an output file. S3 allows 1,024 bytes in a key, and up to 90 come before the
path (`joblane.deployment.names.output_key`)."""

MAX_NAME_BYTES: Final = 255
"""Longest component of a path: Linux allows no longer name (NAME_MAX)."""

MAX_DEPTH: Final = 100
"""Most components of a path."""

_NONCHARACTERS = "\ufdd0-\ufdef" + "".join(
    f"{chr(plane + 0xFFFE)}{chr(plane + 0xFFFF)}" for plane in range(0, 0x110000, 0x10000)
)
"""Code points that Unicode never assigns. Two of them cannot be in XML, by which S3 deletes."""

_REFUSED = re.compile(f"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff{_NONCHARACTERS}]")
"""Characters that end lines or control terminals, those that are none, and bytes that are no UTF-8:
Python decodes them as surrogates."""


def check_path(path: str, most: int = MAX_PATH_BYTES) -> str:
    """Return a path that names one file below the work directory, and no other path names it.

    Raises ValueError, which says what is wrong and does not repeat the path.
    """
    if not path:
        raise ValueError("must not be empty")
    if _REFUSED.search(path):
        raise ValueError("must be UTF-8 without control characters and noncharacters")
    if path.startswith("/"):
        raise ValueError("must be relative to the work directory, without a leading slash")
    parts = path.split("/")
    if not parts[-1]:
        raise ValueError("must not end with a slash")
    if any(part in {"", ".", ".."} for part in parts):
        raise ValueError("must be normalized: no empty component, no '.' and no '..'")
    if len(path.encode()) > most:
        raise ValueError(f"must be at most {most} bytes")
    if len(parts) > MAX_DEPTH:
        raise ValueError(f"must have at most {MAX_DEPTH} components")
    if any(len(part.encode()) > MAX_NAME_BYTES for part in parts):
        raise ValueError(f"must have components of at most {MAX_NAME_BYTES} bytes")
    return path


class Tree:
    """The paths of one tree: none is there twice, and none is a directory of another."""

    def __init__(self, paths: Iterable[str]) -> None:
        self._directories = {
            path[:end] for path in paths for end, letter in enumerate(path) if letter == "/"
        }
        self._taken = set[str]()

    def take(self, path: str) -> str:
        """Return a path of the tree. Raises ValueError if it cannot be beside the others."""
        if path in self._taken:
            raise ValueError("is the path of an earlier entry as well")
        if path in self._directories:
            raise ValueError("is a directory of another entry")
        self._taken.add(path)
        return path
