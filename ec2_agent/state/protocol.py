"""Frames on the state service's socket: one JSON object per line, in UTF-8.

An invalid line is answered with an error, and the connection goes on with the next line. A frame
that is too long closes the connection.
"""

import json

from ec2_agent.state.records import BATCH, MAX_BODY, MAX_NAME, StateRecord, Verb

TYPE_CHECKING = False  # see ec2_agent/state/__init__.py
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

MAX_FRAME = 1024 * 1024
"""Bytes of a frame. A writer with large bodies sends fewer than a batch at once."""

MAX_ID = 2**53
"""Of a request: the largest integer that every JSON parser reads exactly."""

MAX_VERSION = 2**63 - 1

_JSON = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False)

CODES = {
    "bad_request": "the request is invalid; the message says what is wrong",
    "too_large": "the frame, the batch or a body is longer than allowed",
    "busy": "the backend is locked or throttled; try again",
    "unavailable": "the backend's service cannot be reached; try again",
    "storage_full": "the disk is full; nothing was stored",
    "storage_failed": "the disk or the file returned an error; nothing was stored",
    "denied": "AWS denied access to the table",
    "unusable": "the backend's file or table cannot be used at all",
    "internal": "unexpected error; the service's log has the stack trace",
}
"""Every error code, and what it means."""


class StateRefused(Exception):
    """The service refuses a request, or its backend failed; some of it may be stored.

    `code` is one of `CODES`; `passing`: the same request may succeed soon.
    """

    def __init__(self, code: str, text: str, *, passing: bool = False) -> None:
        super().__init__(text)
        self.code = code
        self.passing = passing


class BadFrame(StateRefused):
    """A frame that is not a valid request."""

    request_id: int | None = None
    """None if it could not be read."""


class StateRequest:
    """A well-formed request."""

    __slots__ = ("after", "id", "ids", "kind", "limit", "op", "records")

    def __init__(
        self,
        id: int,
        op: str,
        *,
        records: tuple[StateRecord, ...] = (),
        kind: str = "",
        ids: tuple[str, ...] = (),
        after: str | None = None,
        limit: int = BATCH,
    ) -> None:
        self.id = id
        self.op = op
        """A verb, or get, list, health."""
        self.records = records
        self.kind = kind
        self.ids = ids
        self.after = after
        self.limit = limit


def frame(message: "Mapping[str, Any]") -> bytes:
    """Encode one message."""
    return _JSON.encode(message).encode() + b"\n"


def record_json(record: StateRecord) -> "dict[str, Any]":
    """Encode a record."""
    known = {
        "kind": record.kind,
        "id": record.id,
        "version": record.version,
        "body": record.body,
        "expires_at": record.expires_at,
    }
    return {name: value for name, value in known.items() if value is not None}


def record_from(value: object) -> StateRecord:
    """Inverse of `record_json`. Raises BadFrame with the invalid field."""
    if not isinstance(value, dict):
        raise BadFrame("bad_request", "a record must be an object")
    unknown = value.keys() - {"kind", "id", "version", "body", "expires_at"}
    if unknown:
        raise BadFrame("bad_request", f"a record has no field {_quote(unknown)}")
    body = value.get("body")
    if body is not None:
        _check_body(body)
    expires_at = value.get("expires_at")
    if expires_at is not None:
        expires_at = _number("expires_at", expires_at, MAX_VERSION)
    return StateRecord(
        kind=_name("kind", value.get("kind")),
        id=_name("id", value.get("id")),
        version=_number("version", value.get("version"), MAX_VERSION),
        body=body,
        expires_at=expires_at,
    )


def parse(line: bytes) -> StateRequest:
    """Decode a request without its line feed. Raises BadFrame."""
    try:
        message = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise BadFrame("bad_request", f"not JSON: {error}") from None
    if not isinstance(message, dict):
        raise BadFrame("bad_request", "a request must be an object")
    request_id = _number("id", message.get("id"), MAX_ID)
    try:
        return _request(request_id, message)
    except BadFrame as wrong:
        wrong.request_id = request_id
        raise


def _request(request_id: int, message: "dict[str, Any]") -> StateRequest:
    op = message.get("op")
    fields = _FIELDS.get(op) if isinstance(op, str) else None
    if not isinstance(op, str) or fields is None:
        raise BadFrame("bad_request", f"op must be one of {', '.join(_FIELDS)}")
    unknown = message.keys() - {"id", "op", *fields}
    if unknown:
        raise BadFrame("bad_request", f"{op} has no field {_quote(unknown)}")
    if op == "health":
        return StateRequest(request_id, op)
    if op == "get":
        ids = _batch("ids", message.get("ids"))
        kind = _name("kind", message.get("kind"))
        return StateRequest(request_id, op, kind=kind, ids=tuple(_name("ids", id_) for id_ in ids))
    if op == "list":
        after = message.get("after")
        limit = _number("limit", message.get("limit", BATCH), BATCH)
        if limit < 1:
            raise BadFrame("bad_request", f"limit must be 1 to {BATCH}")
        return StateRequest(
            request_id,
            op,
            kind=_name("kind", message.get("kind")),
            after=None if after is None else _name("after", after),
            limit=limit,
        )
    records = tuple(record_from(value) for value in _batch("records", message.get("records")))
    if op in (Verb.CREATE, Verb.UPDATE) and any(record.body is None for record in records):
        raise BadFrame("bad_request", f"{op} needs a body in each record")
    return StateRequest(request_id, op, records=records)


_FIELDS: dict[str, tuple[str, ...]] = {
    **{str(verb): ("records",) for verb in Verb},
    "get": ("kind", "ids"),
    "list": ("kind", "after", "limit"),
    "health": (),
}


def _check_body(body: object) -> None:
    if not isinstance(body, str):
        raise BadFrame("bad_request", "body must be a string or null")
    try:
        size = len(body.encode())
    except UnicodeEncodeError:
        raise BadFrame(
            "bad_request", "body must be valid Unicode: it has an unpaired surrogate"
        ) from None
    if size > MAX_BODY:
        raise BadFrame("too_large", f"body must be at most {MAX_BODY} bytes of UTF-8, not {size}")


def _quote(fields: set[str]) -> str:
    return ascii(min(fields)[:40])


def _name(field: str, value: object) -> str:
    if not isinstance(value, str) or not 1 <= len(value) <= MAX_NAME or not value.isprintable():
        raise BadFrame("bad_request", f"{field} must be 1 to {MAX_NAME} printable characters")
    return value


def _number(field: str, value: object, most: int) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= most:
        raise BadFrame("bad_request", f"{field} must be a whole number from 0 to {most}")
    return value


def _batch(field: str, value: object) -> "Sequence[object]":
    if not isinstance(value, list) or not value:
        raise BadFrame("bad_request", f"{field} must be a list of 1 to {BATCH}")
    if len(value) > BATCH:
        raise BadFrame("too_large", f"{field} must hold at most {BATCH}, not {len(value)}")
    return value
