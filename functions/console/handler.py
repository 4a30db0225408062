"""The console function: answers `GET /console` and `GET /console/{path+}` with files.

It is the one function without the layer: the standard library is all that it imports, so a cold
start is that of an empty function. It has no permission, not even to log: what it is called with
may be an authorization code. `infra.console_files` writes its bundle.
"""

import json
import os
from binascii import b2a_base64

TYPE_CHECKING = False
if TYPE_CHECKING:  # the module typing loads six others
    from typing import Any

_FOLDER = os.path.dirname(__file__)  # noqa: PTH120 - pathlib takes longer than all else

with open(f"{_FOLDER}/console.json", encoding="utf-8") as _file:  # noqa: PTH123
    _BUNDLE: "dict[str, Any]" = json.load(_file)

POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self'",
        f"connect-src 'self' {os.environ['JOBLANE_CONNECT']}".rstrip(),
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
        "require-trusted-types-for 'script'",
        "trusted-types 'none'",
    )
)
"""Content security policy of the page. JOBLANE_CONNECT has the origins of the issuer."""

COMMON = {
    "cross-origin-resource-policy": "same-origin",
    "strict-transport-security": "max-age=63072000",
    "vary": "accept-encoding",
    "x-content-type-options": "nosniff",
}

PAGE = {
    **COMMON,
    "cache-control": "no-cache",
    "content-security-policy": POLICY,
    "cross-origin-opener-policy": "same-origin",
    "permissions-policy": ", ".join(
        f"{feature}=()"
        for feature in (
            "accelerometer",
            "autoplay",
            "browsing-topics",
            "camera",
            "display-capture",
            "encrypted-media",
            "fullscreen",
            "geolocation",
            "gyroscope",
            "hid",
            "identity-credentials-get",
            "idle-detection",
            "local-fonts",
            "magnetometer",
            "microphone",
            "midi",
            "payment",
            "picture-in-picture",
            "publickey-credentials-get",
            "screen-wake-lock",
            "serial",
            "usb",
            "xr-spatial-tracking",
        )
    ),
    "referrer-policy": "no-referrer",
}
"""Headers of index.html. Copying to the clipboard is the one feature that stays allowed."""

MODULE = {**COMMON, "cache-control": "public, max-age=31536000, immutable"}
"""Headers of the files that it names: a change of any file changes their paths."""


def main(event: "dict[str, Any]", _context: object) -> "dict[str, Any]":
    """Answer one request of API Gateway (payload format 2.0)."""
    path: str | None = (event.get("pathParameters") or {}).get("path")
    # Names in index.html are relative to /console, without a slash at the end.
    if path == "" or (path is None and event["rawPath"].endswith("/")):
        return _text(308, "moved", location="../console")
    if path is None:
        return _file_answer(event["headers"], "index.html", PAGE)
    version, _, name = path.partition("/")
    if version != _BUNDLE["version"] or name == "index.html" or name not in _BUNDLE["files"]:
        return _text(404, "there is no such file in this version of the console")
    return _file_answer(event["headers"], name, MODULE)


def _file_answer(asked: dict[str, str], name: str, headers: dict[str, str]) -> "dict[str, Any]":
    about = _BUNDLE["files"][name]
    accepted = asked.get("accept-encoding", "")
    encoding = next((each for each in about["encodings"] if _accepts(accepted, each)), None)
    # Each encoding is a representation of its own, so it has its own tag.
    tag = f'"{about["sha256"]}{f"-{encoding}" if encoding else ""}"'
    headers = {**headers, "content-type": about["type"], "etag": tag}
    if _matches(asked.get("if-none-match", ""), tag):
        return {"statusCode": 304, "headers": headers, "body": ""}
    if encoding:
        headers["content-encoding"] = encoding
        name = f"{name}.{encoding}"
    with open(f"{_FOLDER}/files/{name}", "rb") as file:  # noqa: PTH123
        body = b2a_base64(file.read(), newline=False).decode("ascii")
    return {"statusCode": 200, "headers": headers, "body": body, "isBase64Encoded": True}


def _text(status: int, text: str, **more: str) -> "dict[str, Any]":
    headers = {**COMMON, "cache-control": "no-store", "content-type": "text/plain", **more}
    return {"statusCode": status, "headers": headers, "body": f"{text}\n"}


def _accepts(header: str, encoding: str) -> bool:
    """Whether an Accept-Encoding lists an encoding, with another weight than 0."""
    for each in header.lower().split(","):
        coding, _, weight = each.partition(";")
        if coding.strip() == encoding:
            return weight.replace(" ", "") not in ("q=0", "q=0.0", "q=0.00", "q=0.000")
    return False


def _matches(header: str, tag: str) -> bool:
    """Whether an If-None-Match lists a tag; a weak comparison, as RFC 9110 asks for."""
    return any(each.strip().removeprefix("W/") in (tag, "*") for each in header.split(","))
