"""Output files of jobs: list them, and say where one can be downloaded."""

import re
from dataclasses import dataclass
from typing import NamedTuple, Self
from urllib.parse import unquote

from joblane.aws.bounded import Unreadable
from joblane.aws.files.output_store import OutputFileStore
from joblane.contract.output_files import ListedFile, OutputPage
from joblane.contract.problems import NotFound
from joblane.files.models import Manifest, OutputSummary
from joblane.job.head import Head


class Position(NamedTuple):
    """Where a page begins: so many files into the list of an attempt, which never changes."""

    epoch: int
    start: int

    def encode(self) -> str:
        """Encode for a cursor."""
        return f"{self.epoch}:{self.start}"

    @classmethod
    def decode(cls, text: str) -> Self:
        """Inverse of `encode`."""
        epoch, _, start = text.partition(":")
        return cls(int(epoch), int(start))


def is_position(text: str) -> bool:
    """Whether a text may be an encoded position."""
    return re.fullmatch(r"[1-9][0-9]{0,8}:[0-9]{1,8}", text) is not None


@dataclass(frozen=True)
class OutputFiles:
    """Reads the output files of a job's newest attempt that left any."""

    store: OutputFileStore

    def page(
        self, head: Head, limit: int, at: Position | None, *, links: bool
    ) -> tuple[OutputPage, Position | None]:
        """A page of files by path, and where the next one begins, for its `next`.

        A list that is begun goes on with its attempt while a newer one ends. With `links`, each
        file has a URL as of `link`. Raises NotFound if the files have expired.
        """
        if at is None:
            if head.output_files is None:
                return _page(limit, None, ()), None
            at = Position(head.output_files.epoch, 0)
        manifest = self._manifest(head, at.epoch)
        end = at.start + limit
        following = at._replace(start=end) if len(manifest.files) > end else None
        entries = tuple(
            ListedFile(
                **file.model_dump(),
                url=self.store.link(head.tenant, head.job_id, at.epoch, file.path)
                if links
                else None,
            )
            for file in manifest.files[at.start : end]
        )
        return _page(limit, manifest.summary, entries), following

    def link(self, head: Head, path: str) -> str:
        """A URL for the download of a file, for some minutes.

        `path` is as API Gateway hands it on: decoded, but for `%25` (docs/decisions/1306). A path
        with a question mark, which would end it, comes encoded once more. Raises NotFound.
        """
        once = path.replace("%25", "%")
        if head.output_files is not None:
            epoch = head.output_files.epoch
            there = {file.path for file in self._manifest(head, epoch).files}
            for name in (once, unquote(once)):
                if name in there:
                    return self.store.link(head.tenant, head.job_id, epoch, name)
        raise NotFound("the job has no such output file")

    def _manifest(self, head: Head, epoch: int) -> Manifest:
        try:
            manifest = self.store.manifest(head.tenant, head.job_id, epoch)
        except Unreadable as damaged:
            why = f"the list of the job's output files cannot be read: {damaged}"
            raise NotFound(why) from None
        if manifest is None:
            raise NotFound("the output files of the job have expired")
        return manifest


def _page(limit: int, summary: OutputSummary | None, entries: tuple[ListedFile, ...]) -> OutputPage:
    known = summary or OutputSummary(epoch=0, count=0, bytes=0)
    return OutputPage(
        entries=entries,
        limit=limit,
        next=None,
        epoch=None if summary is None else summary.epoch,
        count=known.count,
        bytes=known.bytes,
        unmatched=known.unmatched,
        skipped=known.skipped,
        skipped_count=known.skipped_count,
    )
