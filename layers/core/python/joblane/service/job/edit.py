"""Edit a job that waits: its queue, lane, deadline, labels, resources or time limit.

The row first, then a message that names the edit. In between the row is due in the index `wake`:

    API                          jobs                  lanes              agents
                                 lane A                A: message
    edit  ------------------->   lane B, edit 1, due
    (killed here)                                      A: message  ---->  claim refused: deleted
    requeue: due  <-----------   lane B, edit 1, due
    send  ------------------------------------------>  B: edit 1   ---->  claims
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from joblane.aws.job.jobs import JobStore
from joblane.contract.problems import Conflict, FieldProblem, invalid, wrong
from joblane.formats.times import rfc3339
from joblane.job.edit import changed_meanwhile, differences, patched, plan_edit
from joblane.job.head import Head
from joblane.job.moves import CALLED_FOR
from joblane.job.spec import Submission
from joblane.service.job.operations import Operations, repeat_on_change
from joblane.service.job.wake_up import message_delay_s, send_wake_up
from joblane.service.queue.rules import QueueRules
from joblane.typed.given import given_after

if TYPE_CHECKING:  # few jobs are typed or have a target
    from joblane.service.target.targets import Targets
    from joblane.service.typed.admission import TypedAdmission


@dataclass(frozen=True)
class Edits:
    """Edits jobs. Every method may be called again after a crash at any point."""

    jobs: JobStore
    rules: QueueRules
    operations: Operations
    targets: "Callable[[], Targets]"
    """Returns what knows agents, for jobs that only one may run."""
    types: "Callable[[], TypedAdmission] | None" = None
    """Returns what knows the defaults of types; None where no limit is taken away."""

    def edit(
        self, head: Head, patch: Mapping[str, Any], why: str, now_ms: int, *, exact: bool = False
    ) -> Head:
        """Change a submission by a merge patch of `EDITABLE_FIELDS`; `why` says who does it.

        Of two edits that race the second is made on what the first has left. If both change a
        field, it is refused, and told which. A patch that changes nothing writes nothing, in any
        state: a client sends an edit again whose answer it has lost, when the job may run already.

        `exact` makes it on `head` or not at all. Raises Invalid for what the deployment does not
        allow, NotAllowed for a job that does not wait, Conflict, TryAgain if it changes on every
        try, Gone, and Refused with `exact`.
        """

        def once(seen: Head) -> Head:
            given = _given_after(seen, patch)
            spec = self._with_defaults(seen, _patch(seen.spec, patch), patch, given)
            if spec == seen.spec:
                return seen
            after = replace(plan_edit(seen, spec, now_ms, why), given=given)
            _check_fields(head.spec, seen.spec, patch)
            self._admit(seen, after, now_ms)
            self.jobs.edit(seen, after, now_ms)
            return after

        after = repeat_on_change(once, head, exact=exact)
        if after.edit != head.edit:
            self._send(after, now_ms)
        return after

    def _with_defaults(
        self, seen: Head, spec: Submission, patch: Mapping[str, Any], given: tuple[str, ...]
    ) -> Submission:
        """A submission in which limits that the patch takes away are those of its type again."""
        limits = patch.get("resources", {})
        if seen.type_version is None or (limits is not None and None not in limits.values()):
            return spec
        if self.types is None:
            raise ValueError("limits of typed jobs are not taken away here")
        resources = self.types().limits(seen.tenant, spec, seen.type_version, given)
        return spec.model_copy(update={"resources": resources})

    def _admit(self, seen: Head, after: Head, now_ms: int) -> None:
        """Refuse what a new submission could not ask for. What stays is not checked again."""
        changed = differences(seen.spec, after.spec)
        if "queue" in changed:
            self.rules.require_open(seen.tenant, after.queue)
        if "queue" in changed or "resources" in changed:
            self.rules.check_fleets(after.spec)
        if "deadline" in changed and after.deadline_ms is not None and after.deadline_ms <= now_ms:
            raise wrong("deadline", f"must be in the future; it is {rfc3339(now_ms)} now")
        if "queue" in changed and seen.assigned is not None:
            _, why = self.targets().refusal(after, now_ms)
            if why is not None:
                raise wrong("queue", f"must be one that the job's agent serves: {why}")

    def _send(self, head: Head, now_ms: int) -> None:
        """Send the message of a job that has one; a scheduled one keeps its time in `wake`."""
        if head.state in CALLED_FOR:
            self.operations.send(head, now_ms)
        elif (delay_s := message_delay_s(head, now_ms)) is not None:
            send_wake_up(self.operations.lanes, head, delay_s)


def _given_after(head: Head, patch: Mapping[str, Any]) -> tuple[str, ...]:
    """What was given of a typed job's fields, the edit's included: a restart leaves them."""
    return () if head.type_version is None else given_after(head.given, patch)


def _patch(spec: Submission, patch: Mapping[str, Any]) -> Submission:
    try:
        return patched(spec, patch)
    except ValidationError as error:
        raise invalid(error) from None


def _check_fields(first: Submission, seen: Submission, patch: Mapping[str, Any]) -> None:
    """Refuse an edit of fields that another one has changed since the job was read."""
    if fields := changed_meanwhile(patch, first, seen):
        names = ", ".join(fields)
        problem = "was changed by another edit meanwhile"
        raise Conflict(
            f"{names} {problem}; read the job, and decide again",
            [FieldProblem(field=name, problem=problem) for name in fields],
        )
