"""What differs between two definitions of a job type, and what a change of it needs."""

from pydantic import BaseModel

from joblane.typed.definition import TypeDefinition

_WITH_MEMBERS = ("defaults", "key")


def changes(old: TypeDefinition, new: TypeDefinition) -> tuple[str, ...]:
    """Names of the fields that differ, such as `bundles`, `defaults.queue` and `key.max_active`."""
    found: list[str] = []
    for name in TypeDefinition.model_fields:
        before, after = getattr(old, name), getattr(new, name)
        if before == after:
            continue
        if name in _WITH_MEMBERS and isinstance(before, BaseModel) and isinstance(after, BaseModel):
            found += [
                f"{name}.{member}"
                for member in type(before).model_fields
                if getattr(before, member) != getattr(after, member)
            ]
        else:
            found.append(name)
    return tuple(found)


def names_other_keys(old: TypeDefinition, new: TypeDefinition) -> bool:
    """Whether jobs with the same params have another key, or none in place of one.

    Jobs with the old key and jobs with the new one do not count each other, so they may run at
    once.
    """
    before = None if old.key is None else old.key.segments
    after = None if new.key is None else new.key.segments
    return before != after
