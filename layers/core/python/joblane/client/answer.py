"""The base of the API's answers as objects, whose classes `scripts/reference` writes (models.py).

An object holds the JSON as it came, and reads a field when it is asked for: most programs read a
few of many, and pydantic, whose import takes 100 ms, would refuse a value that is newer than this
version.
"""

from collections.abc import Callable, Iterator, Mapping
from functools import cache
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Any, Union, get_args, get_origin, get_type_hints


class Answer:
    """An object of an answer of the API, read-only; `model_dump()` is its JSON.

    A field that the API left out is None. One that is newer than this version is there too, as
    JSON.
    """

    def __init__(self, data: Mapping[str, Any]) -> None:
        self._data = dict(data)

    def model_dump(self) -> dict[str, Any]:
        """Return the JSON object, with the fields that this version does not know."""
        return dict(self._data)

    if not TYPE_CHECKING:  # else a checker would take any name for a field

        def __getattr__(self, name: str) -> object:
            hint = _fields(type(self)).get(name)
            if name.startswith("_") or (hint is None and name not in self._data):
                raise AttributeError(f"{type(self).__name__} has no field {name}")
            return _read(hint, self._data.get(name))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, type(self)) and other.model_dump() == self._data

    def __hash__(self) -> int:
        return hash(repr(self))

    def __repr__(self) -> str:
        plain = {name: value for name, value in self._data.items() if _is_plain(value)}
        return f"{type(self).__name__}({', '.join(f'{n}={v!r}' for n, v in plain.items())})"

    def __dir__(self) -> Iterator[str]:
        return iter({*super().__dir__(), *self._data, *_fields(type(self))})


def _is_plain(value: object) -> bool:
    return value is not None and not isinstance(value, dict | list)


_fields: Callable[[type], dict[str, Any]] = cache(get_type_hints)
"""The fields of a class and their types; resolving the names takes longer than reading them."""


def _read(hint: Any, value: Any) -> Any:
    """The value of a field; what is not of its type stays JSON."""
    kind = get_origin(hint)
    if kind in {Union, UnionType}:
        kinds = [each for each in get_args(hint) if each is not NoneType]
        return _read(_choose(kinds, value), value)
    if isinstance(value, list) and kind is list:
        return [_read(get_args(hint)[0], each) for each in value]
    if isinstance(value, dict) and kind is dict:
        return {name: _read(get_args(hint)[1], each) for name, each in value.items()}
    if isinstance(value, dict) and isinstance(hint, type) and issubclass(hint, Answer):
        return hint(value)
    return value


def _choose(hints: list[Any], value: Any) -> Any:
    """The type of a value: of several objects the one with the most fields in common with it."""
    models = [each for each in hints if isinstance(each, type) and issubclass(each, Answer)]
    if isinstance(value, dict) and models:
        return max(models, key=lambda model: len(_fields(model).keys() & value.keys()))
    return next((each for each in hints if get_origin(each) is not None), None)
