"""The option `--set FIELD=VALUE` of `resubmit`: changes of a submission, as a JSON merge patch."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any

import typer

from joblane.client.cli import times

ChangeFields = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="FIELD=VALUE",
        help="Change a field of the submission, such as resources.memory_mb=2048 or env.A=b;"
        " FIELD= removes it. Can be repeated.",
    ),
]

_ANY = frozenset({"text", "other"})


def read_changes(given: Sequence[str]) -> dict[str, Any]:
    """Make a merge patch of the options. Raises `BadParameter`.

    A value is text where the field is one, and JSON where it is none; where it may be either, and
    in `params`, it is JSON if it can be read as that. Times may be written as for `submit`, such as
    `+5m`. Nothing, and `null`, remove the field.
    """
    changes: dict[str, Any] = {}
    for option in given:
        path, equals, text = option.partition("=")
        names = path.split(".")
        if not equals or not all(names):
            raise typer.BadParameter(f"--set {option!r}: write FIELD=VALUE, such as queue=bulk")
        place: Any = changes
        for number, name in enumerate(names[:-1], 1):
            place = place.setdefault(name, {})
            if not isinstance(place, dict):
                above = ".".join(names[:number])
                raise typer.BadParameter(f"--set {path}: {above} is set as a whole by another one")
        place[names[-1]] = _value(path, names, text)
    return changes


def _value(path: str, names: Sequence[str], text: str) -> Any:
    if text in {"", "null"}:
        return None
    if path in {"run_at", "deadline"}:
        return times.utc_time(f"--set {path}", text, "ahead", in_future=path == "deadline")
    kinds = _kinds_of(names)
    if "other" not in kinds:
        return text
    try:
        return json.loads(text, parse_constant=_refuse)
    except ValueError:
        if "text" in kinds:
            return text
        wanted = 'must be JSON, such as 512, true, ["a", "b"] or {"name": 1}'
        raise typer.BadParameter(f"--set {path}: {wanted}") from None


def _refuse(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def _kinds_of(names: Sequence[str]) -> frozenset[str]:
    """Whether the field of that name may be text, or something else; both if it is not known."""
    from joblane.job.spec import Submission  # only this option needs the model

    schema = Submission.model_json_schema()
    nodes: list[Mapping[str, Any]] = [schema]
    for name in names:
        nodes = [
            child
            for node in nodes
            for each in _alternatives(node, schema)
            if (child := _member(each, name)) is not None
        ]
    found = {
        "text" if each.get("type") == "string" else "other" if "type" in each else "any"
        for node in nodes
        for each in _alternatives(node, schema)
        if each.get("type") != "null"
    }
    return _ANY if not found or "any" in found else frozenset(found)


def _alternatives(
    node: Mapping[str, Any], schema: Mapping[str, Any]
) -> Iterator[Mapping[str, Any]]:
    """Yield the schemas of which one must hold, without references."""
    if "$ref" in node:
        yield from _alternatives(schema["$defs"][node["$ref"].rpartition("/")[2]], schema)
        return
    several = [*node.get("anyOf", ()), *node.get("oneOf", ())]
    for each in several:
        yield from _alternatives(each, schema)
    if not several:
        yield node


def _member(node: Mapping[str, Any], name: str) -> Mapping[str, Any] | None:
    """The schema of a member of an object; None if it has none of that name."""
    known = node.get("properties", {}).get(name)
    if known is not None:
        return dict(known)
    patterns = [*node.get("patternProperties", {}).values()]
    if patterns:
        return dict(patterns[0])
    return {} if node.get("additionalProperties") is True else None
