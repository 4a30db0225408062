"""The submission of a member of an array whose jobs have values. Pure."""

import json
from dataclasses import replace

from joblane.job.head import Head
from joblane.typed.built_in import built_in_types


def with_value(member: Head, value: str) -> Head:
    """A member with its value, which is JSON: of a type it is the params."""
    spec = member.spec
    if spec.type is not None:
        params = json.loads(value)
        built_in = built_in_types().get(spec.type)
        command = spec.command if built_in is None else built_in.argv(params)
        spec = spec.model_copy(update={"params": params, "command": command})
    return replace(member, spec=spec, value=value)
