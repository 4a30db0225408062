"""Settings of a Lambda function, from its environment and its bundle."""

import json
import os
from pathlib import Path
from typing import Self

from pydantic import BaseModel, ConfigDict

from joblane.deployment.names import VARIABLES


class Environment(BaseModel):
    """Settings of a function: the field `jobs_table` is the variable JOBLANE_JOBS_TABLE.

    Names and ids of AWS resources are in the process's environment, which holds 4 KB. What
    joblane.toml says is in the file VARIABLES of the function's bundle, and changes with its code.
    A missing variable fails the cold start by its name.
    """

    model_config = ConfigDict(
        frozen=True,
        alias_generator=lambda name: f"JOBLANE_{name.upper()}",
        defer_build=True,  # of the classes below a base, only the last one is built
    )

    deployment: str
    queue_url_prefix: str

    @classmethod
    def read(cls, handler: str) -> Self:
        """Read the variables of the process and of the bundle of `handler`, a module's `__file__`.

        Raises ValueError.
        """
        return cls.model_validate(
            {**_read_bundled(Path(handler).with_name(VARIABLES)), **os.environ}
        )


def _read_bundled(file: Path) -> dict[str, str]:
    """The variables in a file of the bundle; none if there is no such file.

    Ids that deployment alone knows have a name there, such as `<people>`. JOBLANE_IDS has them by
    name, `people=ID ...`, and a name that it lacks stays: Lambda replaces code and environment one
    after the other, and in between a client without an id is one that no token names.
    """
    try:
        text = file.read_text(encoding="utf-8")
    except FileNotFoundError:
        return {}
    for named in os.environ.get("JOBLANE_IDS", "").split():
        name, _, value = named.partition("=")
        text = text.replace(f"<{name}>", value)
    variables: dict[str, str] = json.loads(text)
    return variables
