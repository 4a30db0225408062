"""The base of the tables of joblane.toml."""

from pydantic import BaseModel, ConfigDict


class Strict(BaseModel):
    """A table of joblane.toml; unknown keys are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True)
