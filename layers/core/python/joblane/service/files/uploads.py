"""Uploads of input files: which are there already, and how to upload the others."""

from collections.abc import Callable, Container, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import KW_ONLY, dataclass

from joblane.aws.files.store import FileStore, StoredFile
from joblane.contract.files import FileInput, FileUpload
from joblane.contract.problems import wrong
from joblane.contract.types import Upload
from joblane.service.files.stored import find_all
from joblane.service.files.upload_meter import UploadMeter


@dataclass(frozen=True)
class FileUploads:
    """Prepares uploads of a tenant's files; for `days` submissions may name one."""

    store: FileStore
    meter: UploadMeter
    days: int
    clock: Callable[[], float]
    """Returns Unix seconds."""
    _: KW_ONLY
    pool: Callable[[int], Executor] = ThreadPoolExecutor

    def prepare(self, tenant: str, wanted: Sequence[FileInput]) -> tuple[FileUpload, ...]:
        """Say of each file whether it is there, and sign its upload if it is not.

        A file whose days are half over counts as not there: uploaded again, it has all of them, so
        that a job that is submitted now finds it for at least half of the days.

        Raises Invalid for a size that is not that of the file with this digest, and LimitReached if
        the files that are not there are more than the tenant may upload today.
        """
        found = find_all(self.store, tenant, (file.sha256 for file in wanted), self.pool)
        for number, file in enumerate(wanted):
            known = found[file.sha256]
            if known is not None and known.size != file.size:
                raise wrong(
                    f"files.{number}.size",
                    f"is not that of the file with this SHA-256, {known.size} bytes",
                )
        missing = {
            (file.sha256, file.size) for file in wanted if not self._is_kept(found[file.sha256])
        }
        self.meter.require(tenant, sum(size for _, size in missing))
        absent = {sha256 for sha256, _ in missing}
        return tuple(self._answer(tenant, file, absent) for file in wanted)

    def _is_kept(self, known: StoredFile | None) -> bool:
        return known is not None and self.clock() - known.uploaded_at < self.days * 86_400 / 2

    def _answer(self, tenant: str, file: FileInput, absent: Container[str]) -> FileUpload:
        if file.sha256 not in absent:
            return FileUpload(sha256=file.sha256, exists=True, upload=None)
        signed = self.store.upload(tenant, file.sha256, file.size)
        upload = Upload(url=signed.url, headers=dict(signed.headers))
        return FileUpload(sha256=file.sha256, exists=False, upload=upload)
