"""A schedule in joblane.toml."""

import json
from typing import Any, Self

from pydantic import ValidationError, model_validator

from joblane.config.strict import Strict
from joblane.contract.problems import field_problems
from joblane.deployment.names import Name
from joblane.schedule.fields import (
    CatchUpSeconds,
    Cron,
    EverySeconds,
    JitterSeconds,
    Overlap,
    ScheduleFields,
    Template,
    Zone,
)


class Schedule(Strict):
    """A schedule of a tenant, which the API shows, pauses and runs, and does not change."""

    tenant: Name
    """The tenant with whose rights and limits it starts what is due."""
    cron: Cron | None = None
    """Five fields, such as `0 2 * * *`, or `@daily` and the like. Either this or `every_s`."""
    every_s: EverySeconds | None = None
    """Seconds from one due time to the next, 60 or more."""
    zone: Zone = "UTC"
    """The time zone of `cron`, such as `Europe/Berlin`."""
    jitter_s: JitterSeconds = 0
    """What is due starts up to so many seconds later, always by the same number."""
    start: str | None = None
    """No due time is earlier: RFC 3339 in UTC, in quotes."""
    end: str | None = None
    """No due time is later, as `start`."""
    overlap: Overlap = "skip"
    """What happens while what it started before has not ended: `skip`, `queue`, `replace` or
    `allow`."""
    catch_up_s: CatchUpSeconds = 3600
    """After an outage, the latest missed due time starts if it is not older than this."""
    pause_on_failure: bool = False
    """Pause the schedule if what it started before has failed."""
    submission: dict[str, Any] | None = None
    """What it submits, with the fields of `POST /v1/jobs` but `run_at` and `deadline`."""
    requeue: dict[str, Any] | None = None
    """Instead of that: `queue`, and perhaps `type` and `priority`, of open jobs whose messages it
    sends again."""

    @property
    def fields(self) -> ScheduleFields:
        """Its fields as functions take them."""
        return ScheduleFields(**{n: getattr(self, n) for n in ScheduleFields.model_fields})

    @property
    def template(self) -> Template:
        """What it starts."""
        found = {"submission": self.submission, "requeue": self.requeue}
        return Template.model_validate_json(json.dumps(found))

    @model_validator(mode="after")
    def _is_valid(self) -> Self:
        try:
            _ = self.fields, self.template
        except ValidationError as error:
            found = (f"{each.field}: {each.problem}" for each in field_problems(error))
            raise ValueError("; ".join(found)) from None
        return self
