"""The submission of a job that is submitted again, with changes. Pure."""

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from joblane.formats.merge_patch import merge
from joblane.job.head import Head
from joblane.job.spec import Submission
from joblane.typed.given import given_after, given_fields, only_given


def with_changes(head: Head, changes: Mapping[str, Any]) -> str:
    """Return a job's submission with a JSON merge patch applied (RFC 7396), as JSON to validate.

    The document that it changes has what the submitter gave, and the queue. So null brings the
    default back: that of the type, or of the field.
    """
    spec, left_out = head.spec, None
    if head.type_version is not None:
        bare = only_given(spec, head.given)
        document = {**json.loads(bare.model_dump_json(exclude_unset=True)), "queue": spec.queue}
    else:
        if spec.type is not None:  # a built-in type makes it of the params
            left_out = {"command"}
        document = json.loads(spec.model_dump_json(exclude_defaults=True, exclude=left_out))
    return json.dumps(merge(document, changes), separators=(",", ":"))


def as_changed(head: Head, spec: Submission, changes: Mapping[str, Any]) -> Head:
    """Return the job as if its submitter had given `spec`, which has the changes.

    Of another type, what it has now counts as given: no version of it has filled that in.
    """
    same = spec.type == head.spec.type
    return replace(head, given=given_after(head.given, changes) if same else given_fields(spec))
