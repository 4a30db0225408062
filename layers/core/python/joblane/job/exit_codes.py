"""What exit codes of a job mean, in its submission."""

from typing import Annotated, Self

from pydantic import AfterValidator, Field, ValidationInfo, field_validator

from joblane.job.fields import Input
from joblane.state.lifecycle import EXIT_BLOCKED, EXIT_PERMANENT

ExitCode = Annotated[int, Field(ge=1, le=255)]


def _name_once(codes: tuple[int, ...]) -> tuple[int, ...]:
    if len(set(codes)) < len(codes):
        raise ValueError("must name each code once")
    return codes


class ExitCodes(Input):
    """What exit codes of the job mean that otherwise are ordinary failures."""

    permanent: Annotated[
        tuple[ExitCode, ...], Field(max_length=20), AfterValidator(_name_once)
    ] = ()
    """After one of these codes the job fails, and is not tried again."""
    blocked: Annotated[tuple[ExitCode, ...], Field(max_length=20), AfterValidator(_name_once)] = ()
    """After one of these codes the job waits for the condition that it has named on its line, else
    for the first of its `requires`, else for `app:` and its queue's name."""

    skipped: Annotated[tuple[ExitCode, ...], Field(max_length=20), AfterValidator(_name_once)] = ()
    """After one of these codes the job is skipped: it does not apply where it ran."""

    @field_validator("blocked", "skipped")
    @classmethod
    def _one_meaning(cls, codes: tuple[int, ...], info: ValidationInfo) -> tuple[int, ...]:
        for earlier, named in info.data.items():
            if both := set(codes).intersection(named):
                raise ValueError(f"{min(both)} is in {earlier} as well; name it once")
        return codes

    def check_typed(self) -> Self:
        """Refuse codes with which handlers of job types end. Raises ValueError."""
        own = {EXIT_PERMANENT: "PermanentError", EXIT_BLOCKED: "Job.block"}
        for code in (*self.permanent, *self.blocked, *self.skipped):
            if code in own:
                raise ValueError(f"must not name {code}: the exit code of a handler's {own[code]}")
        return self
