"""A command that gives facts of an agent: its settings in joblane.toml and the agent's file."""

from typing import Annotated, Final

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints

from joblane.target.facts import NAME_PATTERN, RESERVED

MAX_COMMANDS: Final = 20
"""Of one agent: all facts together have room in 2 KB."""

# A length in the pattern takes 1.8 MB: pydantic's engine makes an automaton of 1,000 such classes.
Word = Annotated[
    str, StringConstraints(min_length=1, max_length=1000, pattern=r"^[^\x00-\x1f\x7f]*$")
]
"""A word of a command: without control characters, so that it is safe in a file of settings."""


def _not_built_in(name: str) -> str:
    if name in RESERVED:
        raise ValueError(f"{name} is a fact that the agent gives itself; choose another name")
    return name


FactName = Annotated[str, StringConstraints(pattern=NAME_PATTERN), AfterValidator(_not_built_in)]
"""The name of a custom fact."""


class FactCommand(BaseModel):
    """A command whose output is a fact of the agent, or several."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    command: Annotated[tuple[Word, ...], Field(min_length=1, max_length=50)]
    """Program and arguments. It runs as a job does, in a sandbox without network, and sees `/usr`
    of the instance, unless `host` is set. It prints the value, or a JSON object, whose members
    become the facts `NAME.member`."""
    timeout_s: Annotated[float, Field(ge=0.1, le=60)] = 5.0
    """Seconds after which it is killed, and its facts are left out."""
    every_s: Annotated[float, Field(ge=60, le=86_400)] = 300.0
    """Seconds between the end of a run and the next one."""
    host: bool = False
    """Whether it runs outside of a sandbox, as an unprivileged user who sees the files, processes
    and network of the instance. That network has the metadata service with the instance's role:
    trust it as much as the agent."""


FactCommands = Annotated[dict[FactName, FactCommand], Field(max_length=MAX_COMMANDS)]
