"""A botocore loader that reads of a service's model what Joblane calls, without documentation.

botocore keeps a whole model in memory, with its documentation, some megabytes, and lists all
services before it loads one. Here the parts of a file are read one by one, so that what is left out
never takes memory together. Decision 1766 has what this saves.
"""

import gzip
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from botocore.loaders import JSONFileLoader, Loader

from joblane.deployment.services import OF_CREDENTIALS, OPERATIONS, SERVICES

_NAMED_OTHERWISE = {
    "cloudwatch": "monitoring",
    "sso": "portal.sso",
    "sso-oidc": "oidc",
    "stepfunctions": "states",
}
"""Names that differ in the list of endpoints."""

_LISTED = frozenset(_NAMED_OTHERWISE.get(name, name) for name in (*SERVICES, *OF_CREDENTIALS))


class Models(Loader):
    """Finds the models of the services in use without listing all 400.

    For each kind of model botocore lists the directories of every service: about 3,000 system
    calls and 7 ms, twice for each client.
    """

    def __init__(self) -> None:
        super().__init__(file_loader=_Files())

    def list_available_services(self, type_name: str) -> list[str]:  # noqa: ARG002 - botocore's
        """Return all services in use, for every type of model."""
        return [*SERVICES, *OF_CREDENTIALS]


class _Files(JSONFileLoader):
    """Reads a file once in a process, for all sessions: botocore keeps what it reads as well."""

    def load_file(self, file_path: str) -> Any:
        return _read(file_path)


@cache
def _read(file_path: str) -> Any:
    for ending, opened in ((".json", open), (".json.gz", gzip.open)):
        try:
            with opened(file_path + ending, "rb") as file:
                text = file.read().decode()
        except FileNotFoundError:
            continue
        _, *folders, name = file_path.split("/")
        if name == "endpoints":
            return _endpoints(text)
        operations = OPERATIONS.get(folders[-2]) if name == "service-2" else None
        return _value(text, 0)[0] if operations is None else _model(text, operations)
    return None


Read = Callable[[str, int], tuple[Any, int]]
"""Reads the value of a text at a position; gives it with the position after it."""


def _without_words(found: dict[str, Any]) -> dict[str, Any]:
    if isinstance(found.get("documentation"), str):  # not a member of that name
        found["documentation"] = ""  # botocore reads this key, so it must exist
    return found


_SPACE = re.compile(r"[ \t\n\r]*")
_PLAIN, _DECODER = json.JSONDecoder(), json.JSONDecoder(object_hook=_without_words)


def _value(text: str, at: int) -> tuple[Any, int]:
    return _DECODER.raw_decode(text, _next(text, at))


def _next(text: str, at: int) -> int:
    """The position of the next sign that is no space."""
    found = _SPACE.match(text, at)
    return at if found is None else found.end()


def _object(text: str, at: int, readers: Mapping[str, Read], other: Read) -> tuple[Any, int]:
    """Read an object, each member by its reader; what is read as None is left out."""
    found = {}
    at = _next(text, _next(text, at) + 1)
    while text[at] != "}":
        key, at = _PLAIN.raw_decode(text, at)
        value, at = readers.get(key, other)(text, _next(text, at) + 1)
        if value is not None:
            found[key] = value
        at = _next(text, at)
        if text[at] == ",":
            at = _next(text, at + 1)
    return _without_words(found), at + 1


def _keep(names: Iterable[str]) -> Read:
    """Read an object and keep the members of these names."""
    readers = dict.fromkeys(names, _value)

    def skip(text: str, at: int) -> tuple[None, int]:
        return None, _PLAIN.raw_decode(text, _next(text, at))[1]

    return lambda text, at: _object(text, at, readers, skip)


def _endpoints(text: str) -> dict[str, Any]:
    """Read the list of endpoints, of the services in use."""
    services: dict[str, Read] = {"services": _keep(_LISTED)}

    def partitions(text: str, at: int) -> tuple[list[Any], int]:
        found = []
        at = _next(text, at)
        while text[at] != "]":
            one, at = _object(text, at + 1, services, _value)  # behind a bracket or a comma
            found.append(one)
            at = _next(text, at)
        return found, at + 1

    found: dict[str, Any] = _object(text, 0, {"partitions": partitions}, _value)[0]
    return found


@dataclass(frozen=True, slots=True)
class _Shape:
    """Where a shape stands in a file, and which shapes it has in it."""

    at: int
    names: tuple[str, ...]


def _model(text: str, operations: Iterable[str]) -> dict[str, Any]:
    """Read the model of a service, of these operations."""

    def place(text: str, at: int) -> tuple[_Shape, int]:
        value, end = _PLAIN.raw_decode(text, _next(text, at))
        return _Shape(at, tuple(_list_named(value))), end

    def shapes(text: str, at: int) -> tuple[dict[str, _Shape], int]:
        return _object(text, at, {}, place)

    found: dict[str, Any] = _object(
        text, 0, {"operations": _keep(operations), "shapes": shapes}, _value
    )[0]
    needed: dict[str, None] = {}
    todo = [name for operation in found["operations"].values() for name in _list_named(operation)]
    while todo:
        if (name := todo.pop()) not in needed:
            needed[name] = None
            todo += found["shapes"][name].names
    found["shapes"] = {name: _value(text, found["shapes"][name].at)[0] for name in needed}
    return found


def _list_named(part: Mapping[str, Any]) -> Iterator[str]:
    """The shapes that an operation or a shape names."""
    parts = [part.get(key) for key in ("input", "output", "member", "key", "value")]
    parts += part.get("errors", [])
    parts += part.get("members", {}).values()
    return (each["shape"] for each in parts if each is not None)
