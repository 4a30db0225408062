"""Short ids: the end of a job's id, where it is unique among the newest jobs.

The beginning of an id is the time, which jobs share that are submitted together; its end is not.
docs/decisions/1654 has the reasons.
"""

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from joblane.client.errors import InputError, NotFoundError

if TYPE_CHECKING:
    from joblane.client.clients import Client

LEAST = 6
"""Characters that a short id has at least."""

WHOLE = 26
"""Characters of an id."""

SEARCHED = 500
"""Newest jobs among which a short id is looked for: five requests at most."""

_SHORT = re.compile(rf"[0-9A-HJKMNP-TV-Z]{{{LEAST},{WHOLE - 1}}}", re.ASCII)


def full_id(client: "Client", text: str, state: str | None = None) -> str:
    """Return the id that ends with `text`; whatever cannot be a short id is returned as it is.

    Raises `NotFoundError`, and `InputError` that lists the jobs if there are several.
    """
    return full_ids(client, [text], state)[0]


def full_ids(client: "Client", texts: Sequence[str], state: str | None = None) -> list[str]:
    """As `full_id`, for several at once; with `state`, among the jobs in that state."""
    short = {text: text.upper() for text in texts if _SHORT.fullmatch(text.upper())}
    if not short:
        return list(texts)
    found: dict[str, list[str]] = {text: [] for text in short}
    for job in client.list(SEARCHED, hidden=True, state=state):
        for text, end in short.items():
            if job.id.endswith(end):
                found[text].append(f"{job.id} ({job.state})")
    which = "" if state is None else f"{state} "
    for text, jobs in found.items():
        if not jobs:
            raise NotFoundError(
                f"none of the newest {SEARCHED} {which}jobs has an id that ends with {text}; "
                "give the whole id",
                status=404,
            )
        if len(jobs) > 1:
            raise InputError(
                f"{len(jobs)} jobs have ids that end with {text}: {', '.join(jobs[:5])}"
                f"{', ...' if len(jobs) > 5 else ''}; give more of the id"
            )
    return [found[text][0].split()[0] if text in found else text for text in texts]
