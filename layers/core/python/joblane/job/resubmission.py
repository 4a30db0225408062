"""A job submitted again: its submission as the submitter gave it, and with changes. Pure."""

import json
from collections.abc import Mapping
from typing import Any

from joblane.formats.merge_patch import merge
from joblane.job.spec import Submission


def with_changes(spec: Submission, changes: Mapping[str, Any]) -> str:
    """Return the submission with a JSON merge patch applied (RFC 7396), as JSON to validate.

    The document that it changes has the fields that are not at their defaults, so null brings a
    default back. A type's command is not in it: admission makes it of the params.
    """
    left_out = {"command"} if spec.type is not None else None
    text = spec.model_dump_json(exclude_defaults=True, exclude=left_out)
    return json.dumps(merge(json.loads(text), changes), separators=(",", ":"))
