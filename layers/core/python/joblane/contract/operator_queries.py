"""Query parameters of the routes of operators."""

from joblane.contract.queries import JobFilters, SelectJobs
from joblane.contract.query import PAGE_MAX, PageQuery, PageSize
from joblane.job.fields import TypeName
from joblane.state.lifecycle import State


class SelectDead(JobFilters):
    """Which dead jobs a bulk operation changes; as `SelectJobs`."""

    limit: PageSize = PAGE_MAX
    """Maximum number of jobs to change."""

    @property
    def as_jobs(self) -> SelectJobs:
        """The same as filters of jobs."""
        return SelectJobs(**self.model_dump(exclude={"next"}), state=(State.DEAD,))


class WorkQuery(PageQuery):
    """Which jobs a bulk operation changes, a page at a time."""

    limit: PageSize = PAGE_MAX
    """Maximum number of jobs to examine."""
    type: TypeName | None = None
    """Jobs of this type; by default commands and all types."""
