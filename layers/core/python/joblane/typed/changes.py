"""What differs between two definitions of a job type, and what a change of it means. Pure.

A change is judged for those who submit jobs of the type: jobs that were accepted keep their
version.
"""

from collections.abc import Iterator
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from pydantic import BaseModel

from joblane.job.spec import Resources, Submission
from joblane.key.segments import key_hash
from joblane.typed.definition import TypeDefinition
from joblane.typed.narrowing import refused_by

Kind: TypeAlias = Literal["update", "narrows", "breaks-producers", "needs-empty-key"]
"""What a change means: nothing but itself; jobs get less than before; submissions are refused that
were accepted; jobs have other keys than those that run."""

_WITH_MEMBERS: Final = ("defaults", "key")

_LESS: Final = frozenset({"timeout_s", "heartbeat_timeout_s", "deadline_s"})
"""Defaults that are a limit, of which less is narrower; without one there is no limit."""


_NETWORKS: Final = ("none", "egress", "host")
"""From the least to the most."""


class Change(NamedTuple):
    """A field of the definition that differs."""

    field: str
    """Such as `bundles`, `defaults.queue` and `key.max_active`."""
    kind: Kind
    why: str | None = None
    """What is less, or refused; None for an update."""


def changes(old: TypeDefinition, new: TypeDefinition) -> tuple[Change, ...]:
    """The fields that differ, each with what its change means."""
    return tuple(_changes(old, new))


def names_other_keys(old: TypeDefinition, new: TypeDefinition) -> bool:
    """Whether jobs with the same params have another key, or none in place of one.

    Jobs with the old key and jobs with the new one do not count each other, so they may run at
    once.
    """
    before = None if old.key is None else key_hash(old.key.segments)
    after = None if new.key is None else key_hash(new.key.segments)
    return before != after


def _changes(old: TypeDefinition, new: TypeDefinition) -> Iterator[Change]:
    for name in TypeDefinition.model_fields:
        before, after = getattr(old, name), getattr(new, name)
        if before == after and not (name == "key" and names_other_keys(old, new)):
            continue  # to Python true is 1, and to a key it is not
        if name in _WITH_MEMBERS and isinstance(before, BaseModel) and isinstance(after, BaseModel):
            for member in type(before).model_fields:
                pair = getattr(before, member), getattr(after, member)
                other = member == "segments" and names_other_keys(old, new)
                if pair[0] != pair[1] or other:
                    yield _of_member(name, member, *pair)
        elif name == "key":
            yield Change(name, "needs-empty-key", "jobs have a key" if after else "jobs have none")
            if after is not None:  # no key is in use, so nobody would be asked
                yield Change(
                    f"{name}.max_active", "narrows", _from_to("max_active", None, after.max_active)
                )
        elif name == "params_schema":
            refused = refused_by(before, after, "params")
            yield _judged(name, "breaks-producers", refused)
        elif name == "bundles":
            gone = sorted(before.keys() - after.keys())
            yield _judged(name, "narrows", tuple(f"no bundle for {each}" for each in gone))
        else:
            yield Change(name, "update")


def _of_member(name: str, member: str, before: Any, after: Any) -> Change:
    field = f"{name}.{member}"
    if name == "key":
        if member == "segments":
            return Change(field, "needs-empty-key", "the same params name another key")
        less = (member in {"max_active", "max_queued"} and after < before) or (
            member == "when_full" and after != "coalesce"  # refuses jobs, or skips them
        )
        return _judged(field, "narrows", (_from_to(member, before, after),) if less else ())
    return _judged(field, "narrows", tuple(_less(member, before, after)))


def _less(member: str, before: Any, after: Any) -> Iterator[str]:
    """What jobs get less of by another default, in words."""
    before = _plain(member) if before is None else before
    after = _plain(member) if after is None else after
    if member in _LESS:
        yield from _lower(member, before, after)
    elif member == "retry":
        yield from _lower("max_attempts", before.max_attempts, after.max_attempts)
    elif member == "resources":
        limits = _limits(after)
        for limit, most in _limits(before).items():
            yield from _lower(limit, most, limits[limit])
    elif member == "network":
        if _NETWORKS.index(after) < _NETWORKS.index(before):
            yield _from_to(member, before, after)
    elif member == "restartable" and before and not after:
        yield _from_to(member, before, after)


def _limits(resources: Resources) -> dict[str, float | None]:
    """The limits of an attempt, with the values of those that are not set; None is no limit."""
    return {
        "cpus": resources.cpus,
        "memory_mb": resources.memory,
        "pids": resources.processes,
        "io_bps": resources.io_bps,
        "tmp_mb": resources.tmp,
        "disk_mb": resources.disk_mb or 0,
    }


def _lower(name: str, before: Any, after: Any) -> Iterator[str]:
    """Whether a limit is lower; None is none."""
    if after is not None and (before is None or after < before):
        yield _from_to(name, before, after)


def _plain(member: str) -> Any:
    """What a submission has without a default of its type."""
    field = Submission.model_fields.get(member)
    return None if field is None else field.get_default(call_default_factory=True)


def _judged(field: str, kind: Kind, why: tuple[str, ...]) -> Change:
    return Change(field, kind, "; ".join(why)) if why else Change(field, "update")


def _from_to(name: str, before: object, after: object) -> str:
    shown = ("no limit" if before is None else _shown(before), _shown(after))
    return f"{name} from {' to '.join(shown)}"


def _shown(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)
