"""Write the schedules that joblane.toml declares; requeue does, within a minute of a deployment.

It knows by a digest in the table `settings` that there is nothing to do, and asks once in the life
of a function. A crash in between, and two functions at once, leave what the next one finishes: each
schedule is compared with what is there, and the digest is written last. The names are written
first, without a digest, so that what a crash leaves is known when the next joblane.toml has it no
more:

    requeue                        settings             the next deployment's
    names: a         ------------> a, no digest
    saves a, dies                                <----- reads: a, which it does not declare
                                                        deletes a
                                   none          <----- names: none, and its digest

While the API has a schedule of a declared name, this is looked at again each minute.
"""

import hashlib
from dataclasses import dataclass, field

from pydantic import BaseModel, TypeAdapter

from joblane.aws.schedule.declared import Declaration, DeclarationStore
from joblane.aws.schedule.due_queue import DueQueue
from joblane.aws.schedule.schedules import ScheduleStore
from joblane.deployment.names import Name
from joblane.errors import Changed
from joblane.schedule.fields import ScheduleFields, Template
from joblane.schedule.record import Schedule, edit, new_schedule
from joblane.service.log import Log
from joblane.service.schedule.messages import send_next


class DeclaredSchedule(BaseModel):
    """A schedule of joblane.toml, as the stacks write it."""

    tenant: Name
    fields: ScheduleFields
    template: Template


@dataclass
class _Done:
    """Whether the schedules are known to be as declared."""

    done: bool = False


@dataclass(frozen=True)
class DeclaredSchedules:
    """Writes declared schedules."""

    schedules: ScheduleStore
    declarations: DeclarationStore
    queue: DueQueue
    declared: str
    """JSON of `DeclaredSchedule` by name."""
    log: Log
    _state: _Done = field(default_factory=_Done)

    def sync(self, now_ms: int) -> None:
        """Make the schedules as declared, if they are not known to be. Raises Unavailable."""
        if self._state.done:
            return
        digest = hashlib.sha256(self.declared.encode()).hexdigest()[:32]
        before = self.declarations.get()
        known = before is not None and before.digest == digest
        none_ever = before is None and self.declared == "{}"
        self._state.done = known or none_ever or self._declare(digest, before, now_ms)

    def _declare(self, digest: str, before: Declaration | None, now_ms: int) -> bool:
        """Write the names, the schedules, the digest. Returns whether all of it is written."""
        wanted = TypeAdapter(dict[Name, DeclaredSchedule]).validate_json(self.declared)
        names = tuple(f"{each.tenant}/{name}" for name, each in wanted.items())
        known = () if before is None else before.names
        both = Declaration("", tuple(dict.fromkeys((*known, *names))))
        if both != before:
            self.declarations.put(both)
        try:
            if not self._write_all(wanted, known, now_ms):
                return False
        except Changed as change:
            self.log.warning("declared schedules are written again in a minute", why=str(change))
            return False
        self.declarations.put(Declaration(digest, names))
        return True

    def _write_all(
        self, wanted: dict[str, DeclaredSchedule], before: tuple[str, ...], now_ms: int
    ) -> bool:
        """Write what differs, and delete what is declared no more. Returns whether all is so."""
        kept = {f"{each.tenant}/{name}" for name, each in wanted.items()}
        for gone in (each for each in before if each not in kept):
            tenant, _, name = gone.partition("/")
            found = self.schedules.get(tenant, name)
            if found is not None and found.declared:
                self.schedules.delete(found)
        written = [self._write(name, each, now_ms) for name, each in wanted.items()]
        return all(written)

    def _write(self, name: str, wanted: DeclaredSchedule, now_ms: int) -> bool:
        """Write one; False if the API has made one of its name, which is left."""
        found = self.schedules.get(wanted.tenant, name)
        what = wanted.template.what()
        if found is None:
            new = Schedule(
                wanted.tenant, name, wanted.fields, what, now_ms, None, now_ms, declared=True
            )
            new = new_schedule(new, now_ms)
            self.schedules.put_new(new, wanted.template, now_ms)
            send_next(self.queue, None, new, now_ms)
            return True
        if not found.declared:
            self.log.error(
                "a schedule that joblane.toml declares was made by the API before, and is left so; "
                "delete it, and the declared one is written within a minute",
                tenant=wanted.tenant,
                schedule=name,
            )
            return False
        template = self.schedules.template(wanted.tenant, name)
        if (found.fields, template) != (wanted.fields, wanted.template):
            after = edit(found, wanted.fields, what, now_ms)
            self.schedules.write(found, after, now_ms, wanted.template)
            send_next(self.queue, found, after, now_ms)
        return True
