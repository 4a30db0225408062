"""Transfers to and from S3, by requests that the API has signed."""

import hashlib
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from http import HTTPStatus
from typing import Protocol, TypeAlias

import httpx

from joblane.client.errors import AnswerError, FileError, UnreachableError
from joblane.client.files.models import OutputFile, TransferProgress
from joblane.client.files.reading import CHUNK, ContentSource
from joblane.client.files.threads import Stopped, raise_if
from joblane.client.transport import HEADERS, transport

TIMEOUT = httpx.Timeout(60.0, connect=5.0)
"""Seconds for each part of a transfer, not for all of it."""

TRIES = 4

BACKOFF_S = 0.5
"""Pause before the second try; each further one is twice as long."""


class SignatureExpired(Exception):
    """S3 refused a signature (403), such as one that was signed too long ago."""


class _Failed(httpx.HTTPError):
    """S3 answered 5xx."""


class FileTarget(Protocol):
    """A file that is being written."""

    def write(self, piece: bytes) -> None:
        """Take the next piece. Raises `FileError`."""

    def commit(self) -> None:
        """Give it its name. Raises `FileError`."""


Writing: TypeAlias = AbstractContextManager[FileTarget]


class Storage:
    """S3, by signed URLs; its methods are called by several threads."""

    def __init__(self, stop: threading.Event, progress: TransferProgress) -> None:
        self._stop, self._progress = stop, progress
        self._lock = threading.Lock()
        self._clients: dict[str, httpx.Client] = {}

    def close(self) -> None:
        """Close the connections."""
        with self._lock:
            for client in self._clients.values():
                client.close()

    def put(self, source: ContentSource, url: str, headers: Mapping[str, str]) -> None:
        """Send a file. Raises `SignatureExpired`, `FileError`, `UnreachableError`, `AnswerError`.

        S3 compares the content with the digest that the URL was signed for.
        """
        sized = {**headers, "Content-Length": str(source.size)}
        http = self._client(url)
        for left in self._tries():
            sent = _Sent(source, self._stop, self._progress)
            try:
                answer = http.put(url, content=iter(sent), headers=sized)
            except httpx.HTTPError as error:
                sent.take_back()
                if left:
                    continue
                raise _unreachable(f"cannot upload {source.name}", error) from error
            except BaseException:
                sent.take_back()
                raise
            if answer.is_success:
                return
            sent.take_back()
            if answer.status_code == HTTPStatus.FORBIDDEN:
                raise SignatureExpired(_describe(answer))
            if b"BadDigest" in answer.content or b"XAmzContentChecksumMismatch" in answer.content:
                raise FileError(
                    f"{source.name} changed while it was read: S3 has refused it, because it is not"
                    " what was hashed; try again when nothing writes it"
                )
            if not answer.is_server_error or not left:
                raise AnswerError(f"{source.name} was not taken: {_describe(answer)}")

    def fetch(self, url: str, file: OutputFile, begin: Callable[[], Writing]) -> None:
        """Write a file where `begin` says. Raises like `put`, and `AnswerError` for other content.

        `begin` opens a file that is not there yet, and removes it unless it is committed.
        """
        for left in self._tries():
            try:
                with begin() as target:
                    self._receive(url, file, target)
                    target.commit()
            except httpx.HTTPError as error:
                if not left:
                    raise _unreachable(f"cannot download {file.path}", error) from error
            else:
                return

    def _receive(self, url: str, file: OutputFile, target: FileTarget) -> None:
        done = 0
        digest = hashlib.sha256()
        headers = {"Accept-Encoding": "identity"}
        try:
            with self._client(url).stream("GET", url, headers=headers) as answer:
                self._check(answer, file)
                for piece in answer.iter_raw(CHUNK):
                    raise_if(self._stop)
                    done += len(piece)
                    self._progress.add(len(piece))
                    if done > file.size:
                        break
                    digest.update(piece)
                    target.write(piece)
            _check_content(file, done, digest.hexdigest())
        except BaseException:
            self._progress.add(-done)
            raise

    @staticmethod
    def _check(answer: httpx.Response, file: OutputFile) -> None:
        if answer.is_success:
            return
        answer.read()
        if answer.is_server_error:
            raise _Failed(_describe(answer))
        if answer.status_code == HTTPStatus.FORBIDDEN:
            raise SignatureExpired(_describe(answer))
        raise AnswerError(f"cannot download {file.path}: {_describe(answer)}")

    def _client(self, url: str) -> httpx.Client:
        """Return the client of an origin, which is https except on this machine."""
        try:
            parsed = httpx.URL(url)
        except (httpx.InvalidURL, TypeError) as error:
            raise AnswerError(f"the API's answer has no URL for a transfer: {error}") from error
        if parsed.scheme not in {"http", "https"} or not parsed.host:
            raise AnswerError("the API's answer has no URL for a transfer")
        origin = f"{parsed.scheme}://{parsed.netloc.decode()}"
        with self._lock:
            if origin not in self._clients:
                self._clients[origin] = httpx.Client(
                    transport=transport(httpx.HTTPTransport, origin),
                    timeout=TIMEOUT,
                    headers={"User-Agent": HEADERS["User-Agent"]},
                )
            return self._clients[origin]

    def _tries(self) -> Iterator[int]:
        """Yield how many tries are left after each, with a pause between them."""
        for number in range(TRIES):
            if number and self._stop.wait(BACKOFF_S * 2 ** (number - 1)):
                raise Stopped("interrupted")
            yield TRIES - 1 - number


class _Sent:
    """Content that is being sent, and how much of it."""

    def __init__(
        self, source: ContentSource, stop: threading.Event, progress: TransferProgress
    ) -> None:
        self._source, self._stop, self._progress = source, stop, progress
        self._done = 0

    def __iter__(self) -> Iterator[bytes]:
        for piece in self._source.chunks(self._stop):
            yield piece
            self._done += len(piece)
            self._progress.add(len(piece))

    def take_back(self) -> None:
        """None of it counts."""
        self._progress.add(-self._done)
        self._done = 0


def _check_content(file: OutputFile, size: int, sha256: str) -> None:
    if (size, sha256) != (file.size, file.sha256):
        raise AnswerError(
            f"{file.path} is not what the job has left: its size or its SHA-256 differs"
        )


def _unreachable(what: str, error: httpx.HTTPError) -> UnreachableError:
    return UnreachableError(f"{what}: {str(error) or type(error).__name__}")


def _describe(answer: httpx.Response) -> str:
    return f"{answer.status_code} {answer.text[:200]}".strip()
