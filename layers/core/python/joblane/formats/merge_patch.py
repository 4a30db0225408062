"""JSON Merge Patch (RFC 7396): a JSON object of what is to change; null removes a member."""

from collections.abc import Mapping
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
