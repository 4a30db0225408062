"""Uploads the output files of an attempt.

    agent                         S3                                    table
    put each file  ------------>  outputs/<tenant>/<job>/<epoch>/f/...
    put the manifest  --------->  .../manifest
    settle  --------------------------------------------------------->  names count and bytes

Nothing is visible without the manifest, which comes last. Every object can be put again, with the
same content: after a kill at any point the next agent does all of it again (`attempt/outputs.py`).
"""

import hashlib
import os
import threading
from collections.abc import Callable
from typing import BinaryIO, cast

from ec2_agent.files.beneath import open_regular
from ec2_agent.files.collect import CannotCollect, CollectedFiles, FoundFile
from ec2_agent.files.transfers import CHUNK, Proceed, Stopped, Transfers
from ec2_agent.sandbox.model import SHORT
from joblane.aws.files.output_store import ListTooLong, OutputFileStore
from joblane.files.models import Manifest, OutputFile, OutputSummary
from joblane.job.head import Head


class Content:
    """A file that is being uploaded, read only while the attempt is to go on."""

    def __init__(self, file: BinaryIO, proceed: Proceed) -> None:
        self._file = file
        self._proceed = proceed

    def read(self, size: int = -1) -> bytes:
        """Read; raises Stopped."""
        if not self._proceed():
            raise Stopped
        return self._file.read(size)

    def seek(self, offset: int, whence: int = 0) -> int:
        """Set the position: a try that failed begins again."""
        return self._file.seek(offset, whence)

    def tell(self) -> int:
        """Return the position."""
        return self._file.tell()


class OutputUpload:
    """The upload of one attempt's files."""

    def __init__(
        self,
        store: OutputFileStore,
        transfers: Transfers,
        head: Head,
        found: CollectedFiles,
        note: Callable[[str, int, int], None],
    ) -> None:
        self._store = store
        self._transfers = transfers
        self._head = head
        self._found = found
        self._note = note
        self._lock = threading.Lock()
        self._done: dict[str, OutputFile | None] = {}
        """By path; None for a file that could not be read."""

    def run(self, work: int, proceed: Proceed) -> OutputSummary:
        """Upload all files, several at once, and the manifest; `work` is the work directory.

        Blocking; may be repeated after an error, and goes on where it was. Raises Stopped,
        CannotCollect, OSError if this process lacks descriptors or memory, and AWS's errors.
        """
        missing = [file for file in self._found.files if file.path not in self._done]
        self._transfers.run_each(missing, lambda file: self._one(work, file, proceed), proceed)
        files = [file for _, file in sorted(self._done.items()) if file is not None]
        found = self._found
        summary = OutputSummary.of(
            self._head.epoch, files, found.unmatched, found.skipped, found.skipped_count
        )
        head, manifest = self._head, Manifest(summary=summary, files=tuple(files))
        try:
            self._store.put_manifest(head.tenant, head.job_id, head.epoch, manifest)
        except ListTooLong as long:
            raise CannotCollect(f"its output files have {long}") from None
        return summary

    def _one(self, work: int, file: FoundFile, proceed: Proceed) -> None:
        try:
            fd = open_regular(work, file.path)
        except OSError as error:
            if error.errno in SHORT:
                raise
            with self._lock:
                self._found.skip(file.path, f"it could not be read: {error.strerror}")
                self._done[file.path] = None
            return
        with os.fdopen(fd, "rb", buffering=0) as content:
            output = _describe(content, file, proceed)
            content.seek(0)
            body = cast("BinaryIO", Content(content, proceed))
            head = self._head
            self._store.put(
                head.tenant, head.job_id, head.epoch, output.path, body, sha256=output.sha256
            )
        with self._lock:
            self._done[file.path] = output
            done = len(self._done)
        self._note("uploading output files", done, len(self._found.files))


def _describe(content: BinaryIO, file: FoundFile, proceed: Proceed) -> OutputFile:
    """Read a file whole for its size and digest; S3 refuses a content that differs from these."""
    digest, size, buffer = hashlib.sha256(), 0, bytearray(CHUNK)
    view = memoryview(buffer)
    while read := content.readinto(buffer):  # type: ignore[attr-defined]
        if not proceed():
            raise Stopped
        digest.update(view[:read])
        size += read
    return OutputFile(path=file.path, size=size, sha256=digest.hexdigest(), mode=file.mode)
