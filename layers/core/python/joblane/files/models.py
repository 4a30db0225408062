"""Files of a job as its submission, its manifest and the API have them.

Most jobs have none, so what every process imports does not import this.
"""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    TypeAdapter,
    ValidationInfo,
    field_validator,
)

from joblane.files.fields import Sha256
from joblane.files.globs import MAX_GLOBS, Glob
from joblane.files.paths import Tree, check_path

if TYPE_CHECKING:
    from pydantic_core import CoreSchema

MAX_INPUTS: Final = 1000
"""Most input files of a job."""

DEFAULT_MODE: Final = "0644"

MAX_SKIPPED: Final = 20
"""Most skipped files that a summary names."""

SUMMARY_CHARS: Final = 1000
"""Characters of the globs and paths that the summary in a job's row names; others are counted."""

_MODE = r"^0[0-7]{3}$"


def _mode(value: str) -> str:
    if len(value) != len(DEFAULT_MODE) or value[0] != "0" or not set(value) <= set("01234567"):
        raise ValueError("must be permissions in octal, 0000 to 0777, such as 0755")
    return value


def _glob(value: str) -> str:
    Glob.parse(value)
    return value


FilePath = Annotated[str, AfterValidator(check_path)]
Mode = Annotated[str, AfterValidator(_mode), Field(json_schema_extra={"pattern": _MODE})]
GlobText = Annotated[str, AfterValidator(_glob)]


class InputFile(BaseModel):
    """A file that is placed in the work directory before an attempt starts."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, defer_build=True)

    path: FilePath
    """Path below the work directory: relative and normalized, at most 1,024 bytes."""
    sha256: Sha256
    """SHA-256 of its content, in hexadecimal digits. The file is uploaded before
    (`POST /v1/files`)."""
    mode: Mode = DEFAULT_MODE
    """Permissions in octal; no setuid, setgid or sticky bit."""

    @field_validator("path")
    @classmethod
    def _beside_the_others(cls, value: str, info: ValidationInfo) -> str:
        return info.context.take(value) if isinstance(info.context, Tree) else value


class OutputFile(BaseModel):
    """A file that was collected from the work directory after an attempt."""

    model_config = ConfigDict(frozen=True, defer_build=True)

    path: str
    """Path below the work directory."""
    size: int
    """Bytes."""
    sha256: str
    """SHA-256 of its content, in hexadecimal digits."""
    mode: str = DEFAULT_MODE
    """Permissions in octal."""


class SkippedFile(BaseModel):
    """A path that a glob of `outputs` matched and that was not collected."""

    model_config = ConfigDict(frozen=True, defer_build=True)

    path: str
    """Path below the work directory; control characters are replaced."""
    why: str
    """Why: it is a link, for example."""


class OutputSummary(BaseModel):
    """Which output files an attempt had. The row of a job has it, and the manifest."""

    model_config = ConfigDict(frozen=True, defer_build=True)

    epoch: int
    """The claim whose attempt it was."""
    count: int
    """Number of files."""
    bytes: int
    """Their size together."""
    unmatched: tuple[str, ...] = ()
    """Globs of `outputs` that matched no file."""
    skipped: tuple[SkippedFile, ...] = ()
    """Paths that were matched and not collected, at most 20 of them."""
    skipped_count: int = 0
    """Number of all such paths."""

    @classmethod
    def of(
        cls,
        epoch: int,
        files: Iterable[OutputFile],
        unmatched: Iterable[str] = (),
        skipped: Sequence[SkippedFile] = (),
        skipped_count: int | None = None,
    ) -> Self:
        """Sum up the files of an attempt.

        `skipped_count` is the number of all skipped paths, if `skipped` has only the first.
        """
        sizes = [file.size for file in files]
        return cls(
            epoch=epoch,
            count=len(sizes),
            bytes=sum(sizes),
            unmatched=tuple(unmatched),
            skipped=tuple(skipped[:MAX_SKIPPED]),
            skipped_count=len(skipped) if skipped_count is None else skipped_count,
        )

    def for_row(self) -> Self:
        """The summary with as many names as a job's row has room for; the manifest has all.

        A glob that does not fit ends with an ellipsis, so that the number of globs stays right.
        """
        left, unmatched, skipped = SUMMARY_CHARS, list[str](), list[SkippedFile]()
        for glob in self.unmatched:
            most = max(1, left // 2)
            unmatched.append(glob if len(glob) <= most else glob[: most - 1] + "\u2026")
            left -= len(unmatched[-1])
        for entry in self.skipped:
            left -= len(entry.path) + len(entry.why)
            if left < 0:
                break
            skipped.append(entry)
        return self.model_copy(update={"unmatched": tuple(unmatched), "skipped": tuple(skipped)})


class Manifest(BaseModel):
    """All output files of one attempt, ordered by path: the object `manifest` in S3."""

    model_config = ConfigDict(frozen=True, defer_build=True)

    summary: OutputSummary
    """What the job's row has in short."""
    files: tuple[OutputFile, ...]
    """The files."""


Inputs = Annotated[tuple[InputFile, ...], Field(max_length=MAX_INPUTS)]
Outputs = Annotated[tuple[GlobText, ...], Field(max_length=MAX_GLOBS)]

_INPUTS: TypeAdapter[tuple[InputFile, ...]] = TypeAdapter(
    Inputs, config=ConfigDict(defer_build=True)
)
_OUTPUTS: TypeAdapter[tuple[str, ...]] = TypeAdapter(
    Outputs, config=ConfigDict(strict=True, defer_build=True)
)
_SUMMARY: TypeAdapter[OutputSummary] = TypeAdapter(OutputSummary)


def check_inputs(values: tuple[Any, ...], *, stored: bool) -> tuple[InputFile, ...]:
    """Validate the input files of a submission; of a stored one, unknown fields are ignored.

    Raises ValidationError naming entry and field, and ValueError for too many.
    """
    if len(values) > MAX_INPUTS:
        raise ValueError(f"must have at most {MAX_INPUTS} entries")
    listed = [value.get("path") for value in values if isinstance(value, dict)]
    tree = Tree(path for path in listed if isinstance(path, str))
    extra: Literal["ignore"] | None = "ignore" if stored else None
    return _INPUTS.validate_python(values, context=tree, extra=extra)


def check_outputs(values: tuple[Any, ...]) -> tuple[str, ...]:
    """Validate the globs of a submission. Raises ValidationError naming the entry."""
    return _OUTPUTS.validate_python(values)


def schema_of(name: Literal["inputs", "outputs", "summary"]) -> "CoreSchema":
    """The schema of a field of a submission or a job, for their JSON schemas."""
    adapters: dict[str, TypeAdapter[Any]] = {
        "inputs": _INPUTS,
        "outputs": _OUTPUTS,
        "summary": _SUMMARY,
    }
    return adapters[name].core_schema
