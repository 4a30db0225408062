"""Routes of keys."""

from typing import Final

from joblane.contract.audit import Because
from joblane.contract.keys import Cleared, KeyDetail, KeyPage, KeyQuery
from joblane.contract.route import SWEEPS, Route

_KEYS = "/v1/keys/{scope}"

KEY_ROUTES: Final = (
    Route(
        "listKeys",
        "GET",
        _KEYS,
        ("jobs.read",),
        "List the keys of a type that jobs have or wait for",
        KeyPage,
        query=KeyQuery,
    ),
    Route(
        "getKey",
        "GET",
        f"{_KEYS}/{{key}}",
        ("jobs.read",),
        "Show a key, its jobs and those that wait",
        KeyDetail,
    ),
    Route(
        "clearKey",
        "DELETE",
        f"{_KEYS}/{{key}}/queued",
        ("admin.mutate",),
        "Cancel the jobs that wait for a key, a page at a time",
        Cleared,
        action="clear",
        body=Because,
        rate=SWEEPS,
    ),
)
