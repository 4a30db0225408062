"""Reading objects of S3 that other programs may have written, up to a bound.

Instances write results, output and lists of files, and a job that took over an agent writes there
what it likes: an object may have terabytes, and gzip makes a gigabyte of a megabyte.
"""

import zlib
from typing import Protocol

from joblane.aws.errors import translated

_GZIP = 31
"""`wbits` of zlib for a gzip header and the largest window."""


class Unreadable(ValueError):
    """An object that is not what its name says; the text says why."""


class ObjectBody(Protocol):
    """The content of an object, as botocore gives it."""

    def read(self, amt: int, /) -> bytes:
        """Read so many bytes at most, fewer at the end or where the connection broke."""
        ...


def read(body: ObjectBody, most: int) -> bytes:
    """Read all of an object. Raises Unreadable if it has more than `most` bytes.

    A broken connection raises Unavailable, but not before the read that would return nothing: one
    read alone gives what came until then as if it were all.
    """
    data = bytearray()
    fetch = translated(body.read)
    while piece := fetch(most + 1 - len(data)):
        data += piece
        if len(data) > most:
            raise Unreadable(f"it has more than {most} bytes")
    return bytes(data)


def gunzip(data: bytes, most: int) -> bytes:
    """Decompress gzip. Raises Unreadable if it is damaged, or holds more than `most` bytes."""
    inflater = zlib.decompressobj(_GZIP)
    try:
        raw = inflater.decompress(data, most + 1)
    except zlib.error as error:
        raise Unreadable(str(error)) from None
    if len(raw) > most:
        raise Unreadable(f"it holds more than {most} bytes")
    if not inflater.eof:
        raise Unreadable("it is cut")
    return raw
