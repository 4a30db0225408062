"""A queue in joblane.toml."""

from typing import Annotated

from pydantic import AfterValidator, BeforeValidator, Field

from joblane.config.strict import Strict
from joblane.deployment.names import Name
from joblane.job.deadlines import DeadlineAfter
from joblane.notify.request import Notify


def _on(value: object) -> object:
    """A key of joblane.toml is a list; the model takes no list for a tuple."""
    if isinstance(value, dict) and isinstance(value.get("on"), list):
        return {**value, "on": tuple(value["on"])}
    return value


def _without_members(notify: Notify) -> Notify:
    if notify.members:
        raise ValueError("members is for submissions alone: leave it out")
    return notify


class Queue(Strict):
    """A queue: three lanes and their dead-letter queues."""

    threads: Annotated[int, Field(ge=0, le=1000)] = 8
    """Maximum number of jobs of this queue that one agent runs at once."""
    tenants: tuple[Name, ...] = ()
    """Tenants that may submit to it; empty means every tenant."""
    filter: str | None = None
    """CEL expression that is true for jobs that this queue takes, such as `memory_mb > 4000`; at
    most 2,000 characters (docs/how-to/route-jobs-to-queues.md)."""
    filter_order: Annotated[int, Field(ge=0, le=1_000_000)] | None = None
    """Filters are evaluated from the highest order to the lowest, and the first that is true takes
    the job. Required with a filter, and different for each queue."""
    notify: Annotated[Notify, BeforeValidator(_on), AfterValidator(_without_members)] | None = None
    """Whom jobs of this queue notify, unless they say so themselves."""
    deadline_s: DeadlineAfter | None = None
    """Seconds to the `deadline` of jobs that come into it without one, from their submission or
    their `run_at`. A submission's own deadline, or null, wins, and then that of its job type."""
    retired: bool = False
    """Take no more jobs: what is there still runs (docs/how-to/remove-or-rename-a-queue.md)."""
    moves_to: Name | None = None
    """Queue that its waiting jobs move to; allowed with `retired`, and not itself retired."""
