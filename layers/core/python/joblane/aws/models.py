"""A botocore loader that reads of a service's model what Joblane calls, without documentation.

botocore keeps a whole model in memory, with its documentation, some megabytes, and lists all
services before it loads one. Here the parts of a file are read one by one, so that what is left out
never takes memory together. Decision 1766 has what this saves.
"""

import gzip
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
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
        return (
            json.loads(text, object_hook=_without_words)
            if operations is None
            else _model(text, operations)
        )
    return None


Read = Callable[[str, int], tuple[Any, int]]
"""Reads the value of a text at a position; gives it with the position after it."""


def _without_words(found: dict[str, Any]) -> dict[str, Any]:
    if isinstance(found.get("documentation"), str):  # not a member of that name
        found["documentation"] = ""  # botocore reads this key, so it must exist
    return found


_OPENED = re.compile(r"[ \t\n\r]*[{\[][ \t\n\r]*")
_NAME = re.compile(r'"([^"\\]*)"[ \t\n\r]*:[ \t\n\r]*')
_AFTER = re.compile(r"[ \t\n\r]*([,}\]])[ \t\n\r]*")
_skip = json.JSONDecoder().raw_decode
_value: Read = json.JSONDecoder(object_hook=_without_words).raw_decode


def _opened(text: str, at: int) -> int:
    """The position behind an opening bracket."""
    opened = _OPENED.match(text, at)
    if opened is None:
        raise ValueError(f"no object or list at {at}")
    return opened.end()


def _object(
    text: str, at: int, readers: Mapping[str, Read], other: Read | None
) -> tuple[dict[str, Any], int]:
    """Read an object, each member by its reader; None leaves a member out.

    A cold start reads 2,000 members of such objects, so that a call more for each shows
    (`tests/unit/aws/test_cold_start.py`).
    """
    found = {}
    at = _opened(text, at)
    if text[at] == "}":
        return {}, at + 1
    more = True
    while more:
        name = _NAME.match(text, at)
        if name is None:
            raise ValueError(f"no name of a member at {at}")
        read = readers.get(name[1], other)
        if read is None:
            _, at = _skip(text, name.end())
        else:
            found[name[1]], at = read(text, name.end())
        after = _AFTER.match(text, at)
        if after is None:
            raise ValueError(f"no end of a member at {at}")
        more, at = after[1] == ",", after.end()
    return _without_words(found), at


def _keep(names: Iterable[str]) -> Read:
    """Read an object and keep the members of these names."""
    readers = dict.fromkeys(names, _value)
    return lambda text, at: _object(text, at, readers, None)


def _endpoints(text: str) -> dict[str, Any]:
    """Read the list of endpoints, of the services in use."""
    services: dict[str, Read] = {"services": _keep(_LISTED)}

    def partitions(text: str, at: int) -> tuple[list[Any], int]:
        found = []
        at, more = _opened(text, at), True
        while more:
            one, at = _object(text, at, services, _value)
            found.append(one)
            more, at = text[at] == ",", at + 1
        return found, at

    return _object(text, 0, {"partitions": partitions}, _value)[0]


def _model(text: str, operations: Iterable[str]) -> dict[str, Any]:
    """Read the model of a service, of these operations and the shapes that they need."""

    def note(text: str, at: int) -> tuple[int, int]:
        return at, _skip(text, at)[1]

    def find(text: str, at: int) -> tuple[dict[str, int], int]:
        """Where each shape begins: most are not needed."""
        return _object(text, at, {}, note)

    readers: dict[str, Read] = {"operations": _keep(operations), "shapes": find}
    found = _object(text, 0, readers, _value)[0]
    needed: dict[str, Any] = {}
    todo = [name for operation in found["operations"].values() for name in _list_named(operation)]
    while todo:
        if (name := todo.pop()) not in needed:
            needed[name] = _value(text, found["shapes"][name])[0]
            todo += _list_named(needed[name])
    return {**found, "shapes": needed}


def _list_named(part: Mapping[str, Any]) -> Iterator[str]:
    """The shapes that an operation or a shape names."""
    parts = [part.get(key) for key in ("input", "output", "member", "key", "value")]
    parts += part.get("errors", [])
    parts += part.get("members", {}).values()
    return (each["shape"] for each in parts if each is not None)
