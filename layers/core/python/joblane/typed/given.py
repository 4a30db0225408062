"""Which fields of a typed job its submitter gave, and its submission without all others. Pure.

A stored submission has what its type filled in. Who starts the job again by another version of the
type needs to know what that was: those fields are filled in anew.
"""

from collections.abc import Collection, Mapping
from typing import Any

from joblane.job.fields import Input
from joblane.job.spec import Submission
from joblane.typed.definition import TypeDefaults

_FILLED = (
    *(name for name in TypeDefaults.model_fields if name != "deadline_s"),
    "deadline",
    "items",
)
"""Fields that a type may fill in; `deadline` by its `deadline_s`."""


def given_fields(spec: Submission) -> tuple[str, ...]:
    """The fields of a new submission that a type may fill in, and the submitter gave.

    `retry`, `resources`, `exit_codes` and `env`, which a type completes member by member, are named
    so: `retry.max_attempts`, `env.MODE`.
    """
    found: list[str] = []
    for name in _FILLED:
        if name not in spec.model_fields_set:
            continue
        value = getattr(spec, name)
        if isinstance(value, Input):
            found += (f"{name}.{member}" for member in value.model_fields_set)
        elif isinstance(value, Mapping):
            found += (f"{name}.{member}" for member in value)
        else:
            found.append(name)
    return tuple(sorted(found))


def given_after(given: Collection[str], changes: Mapping[str, Any]) -> tuple[str, ...]:
    """The fields that were given after a JSON merge patch of the submission.

    A field that it takes away is left to the type again.
    """
    found = set(given)
    for name, value in changes.items():
        if name not in _FILLED:
            continue
        members = value if isinstance(value, Mapping) else {"": value}
        for member, new in members.items():
            path = f"{name}.{member}" if member else name
            found = {each for each in found if each != path and not each.startswith(f"{path}.")}
            found |= {path} if new is not None else set()
    return tuple(sorted(found))


def only_given(spec: Submission, given: Collection[str]) -> Submission:
    """The submission without what its type filled in; its `model_fields_set` lacks that, too."""
    members: dict[str, set[str]] = {}
    for path in given:
        name, _, member = path.partition(".")
        members.setdefault(name, set()).add(member)
    kept: dict[str, Any] = {}
    for name in Submission.model_fields:
        value = getattr(spec, name)
        if name not in _FILLED:
            kept[name] = value
        elif name in members:
            kept[name] = _only(value, members[name])
    return Submission.model_construct(_fields_set=set(kept), **kept)


def _only(value: object, members: Collection[str]) -> object:
    """These members of a value that a type completes; any other value as it is."""
    if isinstance(value, Input):
        own: dict[str, Any] = {member: getattr(value, member) for member in members}
        return type(value).model_construct(_fields_set=set(own), **own)
    if isinstance(value, Mapping):
        return {name: text for name, text in value.items() if name in members}
    return value
