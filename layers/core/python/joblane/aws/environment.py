"""The environment of a Lambda function, which the stacks set."""

import os
from typing import Self

from pydantic import BaseModel, ConfigDict


class Environment(BaseModel):
    """Settings of a function: the field `jobs_table` is the variable JOBLANE_JOBS_TABLE.

    A missing variable fails the cold start by its name.
    """

    model_config = ConfigDict(frozen=True, alias_generator=lambda name: f"JOBLANE_{name.upper()}")

    deployment: str
    queue_url_prefix: str

    @classmethod
    def read(cls) -> Self:
        """Read the process's environment. Raises ValueError."""
        return cls.model_validate(dict(os.environ))
