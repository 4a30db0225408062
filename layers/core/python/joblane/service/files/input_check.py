"""Check the input files of a submission: they are there, and not too many bytes.

Only submissions with `inputs` or `stdin_file` need it, so that others do not import it.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import KW_ONLY, dataclass, field
from typing import Final

from joblane.aws.files.store import FileStore, StoredFile
from joblane.contract.problems import FieldProblem, Invalid, wrong
from joblane.deployment.limits import Limits
from joblane.job.spec import Resources, Submission
from joblane.service.files.stored import find_all

MB = 1024 * 1024

MOST_LOOKED_FOR: Final = 2000
"""Different files of one request, of which a job has 1,001 at most: each is a request to S3, and a
batch of the largest size could name 29,000."""


@dataclass(slots=True)
class _Request:
    """What was found for the submissions of one request."""

    of: tuple[str, int] = ("", 0)
    found: dict[str, StoredFile | None] = field(default_factory=dict)


@dataclass(frozen=True)
class InputCheck:
    """Checks input files; `days` is how long after its upload a submission may name one."""

    store: FileStore
    limits: Limits
    days: int
    _: KW_ONLY
    pool: Callable[[int], Executor] = ThreadPoolExecutor
    _request: _Request = field(default_factory=_Request)

    def check(self, tenant: str, spec: Submission, now_ms: int) -> int:
        """Return the bytes of a submission's different files.

        Raises Invalid, which names each file that cannot be used.

        One request to S3 for each content, however many files and jobs of a batch have it: `now_ms`
        is the time of the request. A batch that names more than `MOST_LOOKED_FOR` is refused from
        there on.
        """
        fields = dict(_fields(spec))
        found = self._find(tenant, fields.values(), now_ms)
        problems = [
            FieldProblem(field=name, problem=problem)
            for name, digest in fields.items()
            if (problem := self._problem(found[digest], now_ms)) is not None
        ]
        sizes = {
            digest: stored.size
            for digest in fields.values()
            if (stored := found[digest]) is not None
        }
        if not problems:
            problems += self._too_large(tenant, spec, sizes)
        if problems:
            detail = "; ".join(f"{each.field}: {each.problem}" for each in problems[:3])
            raise Invalid(detail, problems)
        return sum(sizes.values())

    def _find(
        self, tenant: str, digests: Iterable[str], now_ms: int
    ) -> Mapping[str, StoredFile | None]:
        if (tenant, now_ms) != self._request.of:
            self._request.of = tenant, now_ms
            self._request.found.clear()
        known = self._request.found
        new = [digest for digest in dict.fromkeys(digests) if digest not in known]
        if len(known) + len(new) > MOST_LOOKED_FOR:
            raise wrong(
                "inputs",
                f"make the batch name more than {MOST_LOOKED_FOR} different files; submit its jobs "
                "in several batches",
            )
        if new:
            known |= find_all(self.store, tenant, new, self.pool)
        return known

    def _problem(self, stored: StoredFile | None, now_ms: int) -> str | None:
        if stored is None:
            return "no file with this SHA-256 has been uploaded; see POST /v1/files"
        if stored.uploaded_at + self.days * 86_400 <= now_ms / 1000:
            return (
                f"the file was uploaded more than {self.days} days ago, and may be deleted before "
                "the job starts; upload it again, see POST /v1/files"
            )
        return None

    def _too_large(
        self, tenant: str, spec: Submission, sizes: dict[str, int]
    ) -> Iterator[FieldProblem]:
        total = sum(sizes[file.sha256] for file in spec.inputs)
        most_mb = self.limits.of(tenant).input_mb_per_job
        with_stdin = total + (sizes[spec.stdin_file] if spec.stdin_file is not None else 0)
        if with_stdin > most_mb * MB:
            yield FieldProblem(
                field="inputs" if spec.inputs else "stdin_file",
                problem=f"takes {_mb(with_stdin)} MiB; the limit input_mb_per_job is {most_mb}",
            )
        if total > spec.resources.work_mb * MB:
            yield FieldProblem(
                field="inputs",
                problem=f"takes {_mb(total)} MiB, and the work directory has "
                f"{spec.resources.work_mb} ({_set_by(spec.resources)})",
            )


def _set_by(resources: Resources) -> str:
    """What sets the size of the work directory."""
    if resources.disk_mb is not None:
        return "resources.disk_mb"
    by = "resources.tmp_mb" + (" by default" if resources.tmp_mb is None else "")
    return f"{by}, a part of the memory; resources.disk_mb puts it on the instance's disk"


def _mb(size: int) -> int:
    """Bytes in MiB, rounded up."""
    return -(-size // MB)


def _fields(spec: Submission) -> Iterator[tuple[str, str]]:
    """Each field with the SHA-256 of a file."""
    if spec.stdin_file is not None:
        yield "stdin_file", spec.stdin_file
    for number, file in enumerate(spec.inputs):
        yield f"inputs.{number}.sha256", file.sha256
