"""JSON Merge Patch (RFC 7396): a JSON object of what is to change; null removes a member."""

from collections.abc import Iterator, Mapping
from typing import Any


def merge(target: Mapping[str, Any], patch: Mapping[str, Any]) -> dict[str, Any]:
    """Apply a patch to a JSON object, as section 2 of the RFC has it."""
    merged = dict(target)
    for name, value in patch.items():
        if value is None:
            merged.pop(name, None)
        elif isinstance(value, Mapping):
            earlier = merged.get(name)
            merged[name] = merge(earlier if isinstance(earlier, Mapping) else {}, value)
        else:
            merged[name] = value
    return merged


def changed_paths(patch: Mapping[str, Any], depth: int) -> Iterator[str]:
    """Yield the dotted names of what a patch changes, of at most `depth` parts; no value."""
    for name, change in patch.items():
        if depth > 1 and isinstance(change, Mapping) and change:
            yield from (f"{name}.{rest}" for rest in changed_paths(change, depth - 1))
        else:
            yield name
