"""Uploading a bundle to the deployment's bucket, by a presigned request."""

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

import httpx

from joblane.client.bundles.archive import Bundle
from joblane.client.errors import AnswerError, UnreachableError
from joblane.client.transport import transport

TIMEOUT = httpx.Timeout(60.0, connect=5.0)
"""Seconds for each part of the upload, not for all of it."""

TRIES = 3


def upload(bundle: Bundle, place: Mapping[str, Any]) -> None:
    """Put a bundle where the API says. Raises `UnreachableError`, `AnswerError`.

    A bundle that is there already is the same one: its name is its digest.
    """
    url, headers = str(place["url"]), {str(k): str(v) for k, v in place["headers"].items()}
    with httpx.Client(transport=transport(httpx.HTTPTransport, url), timeout=TIMEOUT) as http:
        for left in reversed(range(TRIES)):
            try:
                with bundle.path.open("rb") as file:
                    length = {"Content-Length": str(bundle.size)}
                    answer = http.put(url, content=file, headers={**headers, **length})
            except httpx.HTTPError as error:
                if left:
                    continue
                said = str(error) or type(error).__name__
                raise UnreachableError(f"cannot upload the bundle: {said}") from error
            if answer.is_success or answer.status_code == HTTPStatus.PRECONDITION_FAILED:
                return
            if not answer.is_server_error or not left:
                raise AnswerError(
                    f"the bundle for {bundle.architecture} was not taken: "
                    f"{answer.status_code} {answer.text[:200]}"
                )
