"""How much of a resource a job asks for."""

import re

from joblane.job.spec import Resources


def read_wanted(asked: Resources, field: str) -> float | None:
    """How much of a resource a job asks for; of `cores`, how many an instance must have for it."""
    if field != "cores":
        amount: float | None = getattr(asked, field)
        return amount
    # In ascending order (`joblane.job.spec.Cores`).
    return None if asked.cores is None else int(re.split("[,-]", asked.cores)[-1]) + 1
