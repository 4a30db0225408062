"""Files that the deployment does not have yet: which these are, and sending them."""

import hashlib
import json
import threading
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from typing import Any

from joblane.client.answers import as_object
from joblane.client.calls import Request, Retries, Send
from joblane.client.errors import AnswerError
from joblane.client.files.models import BATCH, TransferProgress
from joblane.client.files.reading import ContentSource
from joblane.client.files.storage import SignatureExpired, Storage
from joblane.client.files.threads import for_each

SIGNED = 3
"""How often an upload is signed again that S3 has refused, such as one that was signed too long
ago."""


def digests(
    sources: Sequence[ContentSource], stop: threading.Event, progress: TransferProgress
) -> Mapping[int, str]:
    """Hash files, several at once. Returns the digest of each by its index. Raises `FileError`."""
    found: dict[int, str] = {}

    def hash_one(at: int) -> None:
        digest = hashlib.sha256()
        for piece in sources[at].chunks(stop):
            digest.update(piece)
            progress.add(len(piece))
        found[at] = digest.hexdigest()
        progress.add(0, 1)

    progress.start("reading", len(sources), sum(source.size for source in sources))
    for_each(hash_one, range(len(sources)), stop)
    return found


def upload(
    sources: Mapping[str, ContentSource],
    send: Send,
    stop: threading.Event,
    progress: TransferProgress,
) -> int:
    """Send the files, by digest, that are not there. Returns how many these were.

    Those that were sent before are not sent again, also after an upload that was interrupted.
    Raises `FileError`, `UnreachableError` and what `send` raises.
    """
    progress.start("uploading", len(sources), sum(source.size for source in sources.values()))
    waiting, again = deque(sources), Counter[str]()
    sent = 0
    storage = Storage(stop, progress)
    try:
        while waiting:
            batch = [waiting.popleft() for _ in range(min(BATCH, len(waiting)))]
            places = _places({digest: sources[digest].size for digest in batch}, send)
            refused: list[str] = []

            def put(digest: str, places: Places = places, refused: list[str] = refused) -> None:
                url, headers = places[digest]
                try:
                    storage.put(sources[digest], url, headers)
                except SignatureExpired as error:
                    again[digest] += 1
                    if again[digest] == SIGNED:
                        name = sources[digest].name
                        raise AnswerError(f"{name} was not taken: {error}") from error
                    refused.append(digest)
                else:
                    progress.add(0, 1)

            for digest in batch:
                if digest not in places:
                    progress.add(sources[digest].size, 1)
            for_each(put, [digest for digest in batch if digest in places], stop)
            sent += len(places) - len(refused)
            waiting.extend(refused)
    finally:
        storage.close()
    return sent


Places = Mapping[str, tuple[str, Mapping[str, str]]]
"""URL and headers of an upload, by digest."""


def _places(sizes: Mapping[str, int], send: Send) -> Places:
    """Ask where to upload files; those that are there are left out. Raises `AnswerError`."""
    body = {"files": [{"sha256": digest, "size": size} for digest, size in sizes.items()]}
    headers = {"Content-Type": "application/json"}
    content = json.dumps(body).encode()
    request = Request("POST", "/v1/files", None, content, headers, Retries.IDEMPOTENT)
    answer = as_object(send(request), "a list of uploads")
    listed = answer.get("files")
    entries: list[Any] = listed if isinstance(listed, list) else []
    found = {str(entry.get("sha256")): entry for entry in entries if isinstance(entry, dict)}
    if set(found) != set(sizes):
        raise AnswerError("the API's answer does not have the files that were asked for")
    return {digest: _place(entry) for digest, entry in found.items() if not entry.get("exists")}


def _place(entry: Mapping[str, Any]) -> tuple[str, Mapping[str, str]]:
    place = as_object(entry.get("upload"), "an upload")
    headers = as_object(place.get("headers"), "an upload")
    return str(place.get("url")), {str(name): str(value) for name, value in headers.items()}
