"""What a bearer token says about itself, for the texts of errors only: nothing is verified here."""

import base64
import binascii
import json
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any


def described(authorization: str | None) -> str | None:
    """Say what the token of the header Authorization allows; None if it cannot be read.

    Such as `the token has the scope jobs.read, that of the role reader`.
    """
    claims = _claims(authorization or "")
    if claims is None:
        return None
    if (ended := _ended(claims)) is not None:
        return ended
    # Imported for this error only.
    from joblane.contract.access import ALL_ROLES, API_AUDIENCE, SCOPES  # noqa: PLC0415

    given = _texts(claims.get("scope") or claims.get("scp"))
    held = [scope for scope in SCOPES if not {scope, f"{API_AUDIENCE}/{scope}"}.isdisjoint(given)]
    if roles := [_role(group) for group in _texts(claims.get("cognito:groups"))]:
        return f"the token has the role {' and '.join(roles)}"
    if not held:
        return "the token has no scope of this API"
    role = next((name for name, scopes in ALL_ROLES.items() if scopes == frozenset(held)), None)
    plural = "s" if len(held) > 1 else ""
    of_role = "" if role is None else f", {'those' if plural else 'that'} of the role {role}"
    return f"the token has the scope{plural} {', '.join(held)}{of_role}"


def _role(group: str) -> str:
    """A role from the name of a user pool's group, `tenant:role` or `platform`."""
    tenant, colon, role = group.rpartition(":")
    return f"{role} in the tenant {tenant}" if colon else role


def _ended(claims: Mapping[str, Any]) -> str | None:
    expires = claims.get("exp")
    if not isinstance(expires, int | float) or time.time() < expires:
        return None
    try:
        moment = datetime.fromtimestamp(expires, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    except (ValueError, OverflowError, OSError):
        return None
    return f"the token expired at {moment}"


def _texts(claim: object) -> list[str]:
    if isinstance(claim, str):
        return claim.split()
    return [str(entry) for entry in claim] if isinstance(claim, list) else []


def _claims(authorization: str) -> Mapping[str, Any] | None:
    parts = authorization.rpartition(" ")[2].split(".")
    if len(parts) != 3:  # noqa: PLR2004 - header, claims, signature
        return None
    try:
        found = json.loads(base64.urlsafe_b64decode(parts[1] + "=="))
    except (binascii.Error, ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None
