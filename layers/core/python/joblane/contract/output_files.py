"""Output files of a job in the API."""

from joblane.contract.models import Page
from joblane.contract.query import PageQuery, Truth
from joblane.files.models import OutputFile, SkippedFile


class OutputsQuery(PageQuery):
    """Which page of output files to answer."""

    links: Truth = False
    """Whether to include a download URL in each entry, which saves a request per file."""


class ListedFile(OutputFile):
    """An output file in a list."""

    url: str | None = None
    """Where it can be downloaded for some minutes, without a token; null unless asked for."""


class OutputPage(Page):
    """A page of a job's output files, by path: those of the newest attempt that left any."""

    entries: tuple[ListedFile, ...]
    """The entries of this page."""
    epoch: int | None
    """The claim whose attempt it was; null if no attempt has collected files yet."""
    count: int
    """Number of all files."""
    bytes: int
    """Their size together."""
    unmatched: tuple[str, ...]
    """Globs of `outputs` that matched no file."""
    skipped: tuple[SkippedFile, ...]
    """Paths that were matched and not collected, at most 20 of them."""
    skipped_count: int
    """Number of all such paths."""
