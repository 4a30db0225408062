"""What a typed job becomes that is started again: by the present version of its type.

What the submitter gave stays, all else is filled in anew, and admission decides again. The number
of the version is read before the write, and the row names it. So a push at that moment comes first
or second, and either is right:

    restart                      types                     developer
    version of sync?  -------->  3
                                 4              <--------  push
    row: pending, version 3
                                                           (a restart after the push has 4)
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from joblane.aws.job.items import encode_spec
from joblane.aws.job.payload_store import PayloadLost, PayloadStore
from joblane.contract.problems import Invalid
from joblane.job.head import Head
from joblane.job.moves import NotAllowed
from joblane.service.job.operations import DoesNotFit
from joblane.service.key.admission import Renewed
from joblane.service.key.rules import KeyRules

if TYPE_CHECKING:
    from joblane.service.job.admit import Admission


@dataclass(frozen=True)
class PresentCode:
    """Applies the present versions of job types to stored jobs."""

    admission: Callable[[], "Admission"]
    payloads: PayloadStore
    rules: KeyRules

    def is_current(self, head: Head, now_ms: int) -> bool:
        """Whether a typed job has the present version of its type. A read. Raises Unavailable."""
        return self.admission().version(head, now_ms) == head.type_version

    def of(self, head: Head, now_ms: int) -> Renewed:
        """Return a typed job as it is to be started again.

        A submission that changes, or gets another lane, is another edit, and is in S3 by now if it
        is too large for the table. Raises DoesNotFit if the present version, or the deployment as
        it is now, does not take it, NotAllowed if its submission is lost, LimitReached if its
        params take too long to validate, and Unavailable.
        """
        try:
            whole = self.payloads.read_whole(head)
        except PayloadLost as lost:
            raise NotAllowed(f"the job's submission is lost: {lost}") from None
        try:
            after = self.admission().renew(whole, now_ms)
            request = self.rules.of_new(after)
        except Invalid as problem:
            raise _does_not_fit(head, problem) from None
        after = replace(after, key=None if request is None else request.name)
        if _as_stored(after) == _as_stored(whole):
            after = replace(after, spec=head.spec, payload=head.payload, given=head.given)
        else:
            after = self.payloads.keep(replace(after, edit=head.edit + 1))
        return Renewed(after, request)


def _as_stored(head: Head) -> tuple[str, str]:
    """A submission as it is stored, and the lane: by both it is in the row, or in its DATA item."""
    return encode_spec(head.spec), head.lane_path


def _does_not_fit(head: Head, problem: Invalid) -> DoesNotFit:
    fields = "; ".join(f"{each.field} {each.problem}" for each in problem.errors[:3])
    return DoesNotFit(
        f"the present version of type {head.spec.type} does not take the job: "
        f"{fields or problem.detail}; restart it with --same-version (same_version=true), which "
        f"runs version {head.type_version} again, or resubmit it with a change",
        problem.errors,
    )
