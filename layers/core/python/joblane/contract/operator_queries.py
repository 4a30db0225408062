"""Query parameters of the routes of operators."""

from typing import Annotated

from pydantic import Field, StringConstraints

from joblane.contract.queries import (
    PAGE_MAX,
    Each,
    JobFilters,
    PageQuery,
    PageSize,
    SelectJobs,
)
from joblane.job.fields import TypeName
from joblane.state.lifecycle import State
from joblane.target.facts import MAX_NAME, NAME_PATTERN

MAX_FACTS = 10
"""Facts that a list of agents shows."""

AnyFactName = Annotated[str, StringConstraints(pattern=NAME_PATTERN, max_length=MAX_NAME)]


class SelectDead(JobFilters):
    """Which dead jobs a bulk operation changes; as `SelectJobs`."""

    limit: PageSize = PAGE_MAX
    """Maximum number of jobs to change."""

    @property
    def as_jobs(self) -> SelectJobs:
        """The same as filters of jobs."""
        return SelectJobs(**self.model_dump(exclude={"next"}), state=(State.DEAD,))


class AgentsQuery(PageQuery):
    """Which agents to list, and what to show of them."""

    fact: Annotated[tuple[AnyFactName, ...], Each, Field(max_length=MAX_FACTS)] = ()
    """Facts to show of each agent, such as `kernel`; can be repeated, up to ten times."""


class WorkQuery(PageQuery):
    """Which jobs a bulk operation changes, a page at a time."""

    limit: PageSize = PAGE_MAX
    """Maximum number of jobs to examine."""
    type: TypeName | None = None
    """Jobs of this type; by default commands and all types."""
