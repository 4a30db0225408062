"""What people do with schedules: create, show, edit, pause, run, backfill, delete."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from pydantic import ValidationError

from joblane.aws.schedule.due_queue import DueQueue
from joblane.aws.schedule.schedules import ScheduleExists, ScheduleStore
from joblane.contract.principal import Principal
from joblane.contract.problems import (
    CHANGED,
    Conflict,
    Forbidden,
    NotFound,
    Problem,
    VersionChanged,
    invalid,
    wrong,
)
from joblane.contract.schedules import (
    LAST_SHOWN,
    Preview,
    PreviewInput,
    ResultView,
    ScheduleEdit,
    ScheduleInput,
    ScheduleSummary,
    ScheduleView,
)
from joblane.schedule.clock_changes import find_surprises
from joblane.schedule.fields import ScheduleFields, Template
from joblane.schedule.record import (
    Pause,
    Schedule,
    edit,
    new_schedule,
    pause,
    resume,
)
from joblane.schedule.results import Result
from joblane.schedule.times import jitter_ms, next_times
from joblane.service.decide_again import decide_again
from joblane.service.schedule.messages import send_next
from joblane.service.schedule.show import show, show_result, show_times, summary

if TYPE_CHECKING:  # lists and previews do not need it
    from joblane.service.schedule.starts import Starts

DAY_MS: Final = 86_400_000

NEEDS_OPERATOR: Final = "a schedule that requeues needs the role operator"


@dataclass(frozen=True)
class Schedules:
    """Reads and changes schedules."""

    store: ScheduleStore
    queue: DueQueue
    starts: "Callable[[], Starts]"
    now_ms: Callable[[], int]
    new_id: Callable[[int], str]
    """Makes the id of a run that somebody asks for, from Unix milliseconds."""
    files_days: int
    """Days for which input files may be named after their upload."""

    def create(self, by: Principal, given: ScheduleInput) -> ScheduleView:
        """Save a new schedule. Raises Conflict for a taken name, and Problem as `_check`."""
        now_ms = self.now_ms()
        template = Template(submission=given.submission, requeue=given.requeue)
        fields = ScheduleFields(
            **{name: getattr(given, name) for name in ScheduleFields.model_fields}
        )
        paused = Pause(now_ms, f"created as paused by {by}") if given.paused else None
        schedule = new_schedule(
            Schedule(
                tenant=by.tenant,
                name=given.name,
                fields=fields,
                what=template.what(),
                created_ms=now_ms,
                created_by=by.who,
                changed_ms=now_ms,
                paused=paused,
            ),
            now_ms,
        )
        self._check(by, schedule, template)
        try:
            self.store.put_new(schedule, template, now_ms)
        except ScheduleExists:
            raise Conflict(
                f"there is a schedule {given.name} already; edit it, or use another name"
            ) from None
        send_next(self.queue, None, schedule, now_ms)
        return self.show(schedule, template, checked=True)

    def _check(self, by: Principal, schedule: Schedule, template: Template) -> None:
        """Check when it is due, and what it is to start, as its submission would be now."""
        if template.requeue is not None and "admin.mutate" not in by.scopes:
            raise Forbidden(NEEDS_OPERATOR)
        if schedule.due_ms is None:
            if schedule.fields.end is not None:
                raise wrong("end", "must not be before the next due time: it would never be due")
            raise wrong("start", "leaves no due time before the year 10000")
        self.starts().check(schedule, template)

    def page(
        self, tenant: str, *, limit: int, after: str | None
    ) -> tuple[list[ScheduleSummary], str | None]:
        """A page of schedules by name, and the name that the next one starts after."""
        found, following = self.store.page(tenant, limit=limit, after=after)
        now_ms = self.now_ms()
        return [summary(each, None, now_ms) for each in found], following

    def find(self, tenant: str, name: str) -> tuple[Schedule, Template]:
        """Read a schedule. Raises NotFound."""
        schedule, template = self.store.get(tenant, name), self.store.template(tenant, name)
        if schedule is None or template is None:
            raise NotFound("there is no such schedule")
        return schedule, template

    def show(
        self, schedule: Schedule, template: Template, *, checked: bool = False
    ) -> ScheduleView:
        """A schedule, with why it does not start anything.

        `checked`: what it starts has been found to be accepted.
        """
        now_ms, older, why = self.now_ms(), list[Result](), None
        if len(schedule.results) < LAST_SHOWN and schedule.pages:
            older = self.store.results_page(schedule.tenant, schedule.name, schedule.pages - 1)
        if not checked and schedule.paused is None and schedule.due_ms is not None:
            why = self._why_refused(schedule, template)
        warnings = [
            *find_surprises(schedule.fields, now_ms),
            *self._warn_of_files(schedule, template, now_ms),
        ]
        return show(schedule, template, older, why, warnings, now_ms)

    def _why_refused(self, schedule: Schedule, template: Template) -> str | None:
        """Why what it starts would not be accepted now; None if it would."""
        try:
            self.starts().check(schedule, template)
        except Problem as problem:
            return f"what it starts would be refused: {problem.detail}"
        return None

    def _warn_of_files(self, schedule: Schedule, template: Template, now_ms: int) -> list[str]:
        spec = template.submission
        if spec is None or not (spec.inputs or spec.stdin_file):
            return []
        days = f"its input files may be named for {self.files_days} days after their upload"
        if (schedule.due_ms or 0) - now_ms > self.files_days * DAY_MS:
            return [f"{days}, and it is due later: what it starts is refused"]
        return [f"{days}: upload them again before that, or what it starts is refused"]

    def edit(
        self,
        by: Principal,
        schedule: Schedule,
        patch: ScheduleEdit,
        *,
        exact: bool,
    ) -> ScheduleView:
        """Change a schedule by a merge patch; `exact` makes it on this version or not at all.

        Raises Conflict for one that joblane.toml declares, Invalid naming the wrong field.
        """
        _require_own(schedule)
        given = patch.model_dump(include=patch.model_fields_set - {"reason"})
        version, created_ms = schedule.version, schedule.created_ms

        def once() -> tuple[Schedule, Template]:
            found, known = self.find(schedule.tenant, schedule.name)
            if found.created_ms != created_ms:
                raise NotFound("there is no such schedule")
            if exact and found.version != version:
                raise VersionChanged(CHANGED)
            now_ms, changed_template = self.now_ms(), _patch_template(known, patch)
            fields = _patch_fields(found.fields, given)
            what = changed_template.what()
            after = edit(found, fields, what, now_ms)
            self._check(by, after, changed_template)
            new = changed_template if changed_template != known else None
            return self._write(found, after, now_ms, new), changed_template

        return self.show(*decide_again(once), checked=True)

    def _write(
        self, seen: Schedule, after: Schedule, now_ms: int, template: Template | None = None
    ) -> Schedule:
        if after == seen:
            return seen
        written = self.store.write(seen, after, now_ms, template)
        resumed = seen.paused is not None and after.paused is None
        send_next(self.queue, None if resumed else seen, after, now_ms)
        return written

    def _change(
        self, tenant: str, name: str, change: Callable[[Schedule, int], Schedule]
    ) -> ScheduleView:
        """Read, change and write a schedule until nobody writes it in between."""

        def once() -> tuple[Schedule, Template]:
            seen, template = self.find(tenant, name)
            now_ms = self.now_ms()
            return self._write(seen, change(seen, now_ms), now_ms), template

        return self.show(*decide_again(once))

    def pause(self, by: Principal, name: str, reason: str | None) -> ScheduleView:
        """Pause a schedule; one that is paused stays as it is."""
        why = f"paused by {by}" + (f": {reason}" if reason else "")
        return self._change(by.tenant, name, lambda seen, now_ms: pause(seen, why, now_ms))

    def resume(self, by: Principal, name: str) -> ScheduleView:
        """Resume a schedule; one that is not paused stays as it is."""
        return self._change(by.tenant, name, resume)

    def delete(self, tenant: str, name: str) -> None:
        """Delete a schedule. Raises NotFound, and Conflict for one that joblane.toml declares."""

        def once() -> None:
            found = self.store.get(tenant, name)
            if found is None:
                raise NotFound("there is no such schedule")
            _require_own(found)
            self.store.delete(found)

        decide_again(once)

    def run(self, by: Principal, name: str, left_s: Callable[[], float]) -> ResultView:
        """Start it now, as the caller. Raises Problem if it is not accepted."""
        schedule, template = self.find(by.tenant, name)
        if template.requeue is not None and "admin.mutate" not in by.scopes:
            raise Forbidden(NEEDS_OPERATOR)
        now_ms = self.now_ms()
        job_id = self.new_id(now_ms)
        done = self.starts().start(schedule, template, job_id, now_ms, left_s, by)
        text = f"run by {by}" + (f"; {done.text}" if done.text else "")
        result = Result(now_ms, "started", now_ms, text, cause="run", job_id=done.job_id or "")
        self.note(schedule, result)
        return show_result(schedule, result)

    def note(self, schedule: Schedule, result: Result) -> None:
        """Add a result of what somebody asked for; a schedule that is gone by then has none."""

        def once() -> None:
            seen = self.store.get(schedule.tenant, schedule.name)
            if seen is not None:
                self.store.write(seen, seen.with_result(result), self.now_ms())

        decide_again(once)

    def preview(self, tenant: str, given: PreviewInput) -> Preview:
        """When a schedule would be due; nothing is saved."""
        now_ms = self.now_ms()
        shift = 0 if given.name is None else jitter_ms(tenant, given.name, given.jitter_s)
        times = next_times(given, now_ms, given.count)
        return Preview(
            zone=given.zone,
            next_times=show_times(given, times, shift),
            warnings=tuple(find_surprises(given, now_ms)),
        )


def _require_own(schedule: Schedule) -> None:
    if schedule.declared:
        raise Conflict(
            f"joblane.toml declares the schedule {schedule.name}: change it there and deploy, or "
            "pause it here"
        )


_PAIRS: Final = (("cron", "every_s"), ("submission", "requeue"))
"""Fields of which each takes the place of the other."""


def _patch_fields(fields: ScheduleFields, given: dict[str, Any]) -> ScheduleFields:
    known = fields.model_dump()
    for name in ScheduleFields.model_fields.keys() & given.keys():
        known[name] = given[name]
    for one, other in (_PAIRS[0], _PAIRS[0][::-1]):
        if given.get(one) is not None and other not in given:
            known[other] = None
    values = {name: value for name, value in known.items() if value is not None}
    try:
        return ScheduleFields(**values)
    except ValidationError as error:
        raise invalid(error) from None


def _patch_template(template: Template, patch: ScheduleEdit) -> Template:
    given = patch.model_fields_set
    values = {"submission": template.submission, "requeue": template.requeue}
    for one, other in (_PAIRS[1], _PAIRS[1][::-1]):
        if one in given:
            values[one] = getattr(patch, one)
            if values[one] is not None and other not in given:
                values[other] = None
    if values == {"submission": template.submission, "requeue": template.requeue}:
        return template
    try:
        return Template(**values)
    except ValidationError as error:
        raise invalid(error) from None
