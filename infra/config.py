"""Reads joblane.toml and reports each error in one line that names the key."""

import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import UnionType
from typing import TYPE_CHECKING, get_args, get_origin

from pydantic import BaseModel, ValidationError

from infra.errors import ConfigError
from infra.toml_strings import find_string
from joblane.config import Config

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

Location = Sequence[int | str]

RESERVED_WORDS = ("amazon", "aws", "cognito")
"""Cognito refuses a domain with one of these words; the domain begins with the name."""

RESERVED_BEGINNINGS = {
    "amzn": "AWS reserves it",
    "ssm": "SSM reserves it for parameters",
    "sthree-": "S3 reserves it for buckets",
    "xn--": "S3 reserves it for buckets",
}
"""Beginnings of names that AWS refuses, with the reason; names of resources begin with the name."""


def load_config(path: Path) -> Config:
    """Read the deployment that `path` declares.

    Raises ConfigError with a line for every error, each naming the file and the key.
    """
    try:
        text = path.read_text(encoding="utf-8")
        declared = tomllib.loads(text)
    except FileNotFoundError:
        raise ConfigError([f"{path}: no such file; -c config=PATH names another"]) from None
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError([f"{path}: cannot be read: {error}"]) from None
    except tomllib.TOMLDecodeError as error:
        raise ConfigError([f"{path}: is not TOML: {error}"]) from None
    try:
        config = Config.model_validate(declared)
    except ValidationError as error:
        lines = [f"{path}: {_explain(details)}" for details in error.errors()]
        raise ConfigError(lines) from None
    if lines := [f"{path}: {line}" for line in _filter_mistakes(config, text)]:
        raise ConfigError(lines)
    for word in RESERVED_WORDS:
        if word in config.name:
            allowed = f"a name without {', '.join(RESERVED_WORDS)} (Cognito's domain begins so)"
            raise ConfigError([f"{path}: name: {config.name!r} contains {word!r}; use {allowed}"])
    for beginning, reason in RESERVED_BEGINNINGS.items():
        if config.name.startswith(beginning):
            said = f"{config.name!r} begins with {beginning!r}: {reason}; use another name"
            raise ConfigError([f"{path}: name: {said}"])
    return config


def _filter_mistakes(config: Config, text: str) -> Iterator[str]:
    """Say what is wrong with each filter, and at which line and column of the file."""
    if not config.filters:
        return
    # Imported here: a library of 14 MB, which most deployments do without.
    from joblane.queue.filters import find_mistake

    for each in config.filters:
        if (mistake := find_mistake(each.expression)) is None:
            continue
        place = find_string(text, ("queues", each.queue, "filter"))
        line, column = place.position(mistake.line, mistake.column)
        yield f"queues.{each.queue}.filter: line {line}, column {column}: {mistake.problem}"


def _explain(details: "ErrorDetails") -> str:
    """One error as `key: what is wrong and what is allowed`."""
    location, kind = details["loc"], details["type"]
    # pydantic locates an invalid key of a table as (table, key, "[key]").
    key = ".".join(str(part) for part in location if part != "[key]")
    message = details["msg"].removeprefix("Value error, ")
    if kind == "value_error":  # raised by validators of joblane.config, which name the keys
        return f"{key}: {message}" if key else message
    if kind == "extra_forbidden":
        return f"{key}: unknown key; allowed here: {', '.join(_siblings(location))}"
    if kind == "missing":
        return f"{key}: is missing; it must be set"
    return f"{key}: {message[:1].lower()}{message[1:]}; it is {details['input']!r}"


def _siblings(location: Location) -> list[str]:
    """Allowed keys of the table that contains `location`."""
    table: type[BaseModel] = Config
    for part in location[:-1]:
        field = table.model_fields.get(str(part))
        if field is not None:
            table = _table_of(field.annotation) or table
    return sorted(table.model_fields)


def _table_of(annotation: object) -> type[BaseModel] | None:
    """Return the model of a field: its type, an option of it, or the type of its values."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    if get_origin(annotation) is dict:
        return _table_of(get_args(annotation)[1])
    if get_origin(annotation) is UnionType:
        return _table_of(get_args(annotation)[0])
    return None
