"""JSON merge patches (RFC 7396): changes of a JSON document, written as a part of it."""

from collections.abc import Iterator, Mapping
from typing import Any


def merge(document: object, patch: object) -> object:
    """Apply a patch: null removes a member, an object changes members, all else replaces."""
    if not isinstance(patch, Mapping):
        return patch
    merged = dict(document) if isinstance(document, Mapping) else {}
    for name, change in patch.items():
        if change is None:
            merged.pop(name, None)
        else:
            merged[name] = merge(merged.get(name), change)
    return merged


def changed_paths(patch: Mapping[str, Any], depth: int) -> Iterator[str]:
    """Yield the dotted names of what a patch changes, of at most `depth` parts; no value."""
    for name, change in patch.items():
        if depth > 1 and isinstance(change, Mapping) and change:
            yield from (f"{name}.{rest}" for rest in changed_paths(change, depth - 1))
        else:
            yield name
