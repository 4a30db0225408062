"""Admission: which submissions a tenant may make, and the job that one becomes."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from joblane.contract.principal import Principal
from joblane.contract.problems import FieldProblem, Invalid, wrong
from joblane.contract.queue_of_job import QueueChoice
from joblane.group.array import AT_ONCE
from joblane.job.deadlines import deadline_after
from joblane.job.disk import to_mib
from joblane.job.head import Head, make_head
from joblane.job.spec import ONLY_OF_GROUPS, Submission, is_broadcast
from joblane.service.queue.router import QueueRouter
from joblane.state.secret_names import describe_allowed, parse
from joblane.state.trace import TraceContext

if TYPE_CHECKING:
    from joblane.notify.rules import NotifyRules
    from joblane.service.files.input_check import InputCheck
    from joblane.service.typed.admission import Pinned, TypedAdmission, TypedSubmission


@dataclass(frozen=True)
class Admission:
    """The rules of one deployment."""

    deployment: str
    router: QueueRouter
    """Chooses the queue."""
    fleet_queues: Mapping[str, tuple[str, ...]]
    """The queues that each fleet serves."""
    deadlines: Mapping[str, float]
    """Seconds to the deadline of jobs that have none, of queues that have a default."""
    types: "Callable[[], TypedAdmission]"
    """Returns what checks typed jobs, which takes long to import."""
    inputs: "Callable[[], InputCheck] | None" = None
    """Returns what checks input files, which few jobs have; None where none is submitted."""
    notify: "Callable[[], NotifyRules] | None" = None
    """Returns what checks notifications, and which tenants have a feed; None if no tenant may ask
    for any and none has one."""

    def head(
        self,
        by: Principal,
        spec: Submission,
        job_id: str,
        now_ms: int,
        caller_trace: TraceContext | None = None,
        *,
        repeats: Head | None = None,
    ) -> Head:
        """Make a submission's job. Raises Invalid naming the field that is not allowed.

        `caller_trace` is for a submission without a trace context of its own. `repeats` is the job
        whose submission it is.
        """
        typed = self._admit_type(by.tenant, spec, now_ms, again=repeats)
        spec = spec if typed is None else typed.spec
        spec = spec.model_copy(update={"queue": self.router.route(by, spec, now_ms)})
        if _leaves_deadline(spec, typed, repeats):
            spec = self._add_deadline(spec, now_ms)
        self.check(by.tenant, spec)
        input_bytes = 0
        if self.inputs is not None and (spec.inputs or spec.stdin_file is not None):
            input_bytes = self.inputs().check(by.tenant, spec, now_ms)
        spec = self._add_notify(by.tenant, spec)
        spec = _bounded(spec)
        if is_broadcast(spec.target) and not _sets_retry(spec, typed, repeats):
            spec = _tried_once(spec)
        return replace(
            make_head(job_id, by.tenant, spec, now_ms, by.who, caller_trace=caller_trace),
            resubmit_of=None if repeats is None else repeats.job_id,
            request_id=by.request_id,
            events=None if self.notify is None else self.notify().events.get(by.tenant),
            type_version=None if typed is None else typed.version,
            files_mb=to_mib(input_bytes),
            bundle_mb=0 if typed is None else typed.bundle_mb,
            given=() if typed is None or typed.version is None else typed.given,
        )

    def renew(self, head: Head, now_ms: int) -> Head:
        """Return a stored job with the current version of its type, as it would be accepted now.

        Its submission must be whole. What the submitter gave stays, and so does a queue that was
        chosen for it. Raises Invalid naming the field that is not allowed.
        """
        typed = self._admit_type(head.tenant, head.spec, now_ms, again=head)
        if typed is None:
            return head
        spec = typed.spec
        if is_broadcast(spec.target) and not _sets_retry(spec, typed, head):
            spec = _tried_once(spec)
        if spec.queue != head.queue:
            self.router.rules.require_open(head.tenant, spec.queue or "")
        if _leaves_deadline(spec, typed):
            spec = self._add_deadline(spec, now_ms)
        self.check(head.tenant, spec)
        return replace(
            head,
            spec=spec,
            type_version=typed.version,
            bundle_mb=typed.bundle_mb,
            given=typed.given,
        )

    def version(self, head: Head, now_ms: int) -> int | None:
        """The present version of a job's type; None if it has none, or is gone."""
        if head.spec.type is None:
            return None
        return self.types().version(head.tenant, head.spec.type, now_ms)

    def check(self, tenant: str, spec: Submission) -> None:
        """Check a submission that has its queue against what the deployment allows now.

        Raises Invalid naming the field: of a queue that the tenant may not use, more than its
        fleets give, and others' conditions and secrets.
        """
        self._check_secrets(tenant, spec)
        self._check_conditions(tenant, spec)
        self.router.rules.require(tenant, spec.queue or "")
        self.router.rules.check_fleets(spec)

    def _admit_type(
        self, tenant: str, spec: Submission, now_ms: int, *, again: Head | None = None
    ) -> "TypedSubmission | None":
        """Apply the type of a submission, which is that of the job `again`; None without one."""
        if spec.type is None:
            return None
        return self.types().admit(
            tenant, spec, now_ms, again=None if again is None else _pinned(again)
        )

    def explain(self, by: Principal, spec: Submission, now_ms: int) -> QueueChoice:
        """Say which queue would take a job, and why. Raises Invalid for its type or params."""
        typed = self._admit_type(by.tenant, spec, now_ms)
        return self.router.explain(by, spec if typed is None else typed.spec, now_ms)

    def _add_deadline(self, spec: Submission, now_ms: int) -> Submission:
        """The submission with the default deadline of its queue, if that has one."""
        seconds = self.deadlines.get(spec.queue or "")
        if seconds is None:
            return spec
        return spec.model_copy(update={"deadline": deadline_after(spec, seconds, now_ms)})

    def _add_notify(self, tenant: str, spec: Submission) -> Submission:
        """The submission with the notification that its queue asks for, unless it has its own."""
        if self.notify is None and spec.notify is None:
            return spec
        rules = _no_rules() if self.notify is None else self.notify()
        if spec.notify is None:
            own = rules.queues.get(spec.queue or "")
            return spec if own is None else spec.model_copy(update={"notify": own})
        if (refusal := rules.refusal(tenant, spec.notify)) is not None:
            raise wrong(*refusal)
        if spec.notify.members and not spec.makes_group:
            raise wrong("notify.members", ONLY_OF_GROUPS)
        return spec

    def _check_conditions(self, tenant: str, spec: Submission) -> None:
        """Refuse quotas of others, and fleets that are unknown or serve no queue of the tenant.

        In the same words whether or not another tenant has a fleet of that name.
        """
        for index, name in enumerate(spec.requires):
            kind, _, parameter = name.partition(":")
            if kind == "quota" and parameter != tenant:
                problem = f"may name this tenant's quota only, quota:{tenant}"
                raise wrong(f"requires.{index}", problem)
            if kind == "capacity" and parameter not in (known := self._fleets(tenant)):
                names = ", ".join(f"capacity:{fleet}" for fleet in known) or "none"
                problem = f"must name a fleet that serves a queue of this tenant: {names}"
                raise wrong(f"requires.{index}", problem)

    def _fleets(self, tenant: str) -> list[str]:
        """The fleets that serve a queue which the tenant may use."""
        allowed = set(self.router.rules.open_to(tenant))
        return [fleet for fleet, queues in self.fleet_queues.items() if allowed & set(queues)]

    def _check_secrets(self, tenant: str, spec: Submission) -> None:
        names = describe_allowed(self.deployment, tenant)
        problem = f"is not a name that this tenant may use: {names}"
        foreign = [
            FieldProblem(field=f"secret_env.{variable}", problem=problem)
            for variable, reference in spec.secret_env.items()
            if not parse(reference).belongs_to(self.deployment, tenant)
        ]
        if foreign:
            detail = f"{foreign[0].field} {problem}"
            raise Invalid(detail, foreign)


def _no_rules() -> "NotifyRules":
    from joblane.notify.rules import NotifyRules  # few jobs notify anybody

    return NotifyRules()


def _pinned(head: Head) -> "Pinned":
    from joblane.service.typed.admission import Pinned  # few requests are about a type

    return Pinned(head.spec.type, head.type_version, head.given)


def _bounded(spec: Submission) -> Submission:
    """The submission, of a large array with how many of its jobs run at once."""
    if spec.array is None or spec.array.jobs <= AT_ONCE or spec.max_concurrency is not None:
        return spec
    return spec.model_copy(update={"max_concurrency": AT_ONCE})


def _tried_once(spec: Submission) -> Submission:
    return spec.model_copy(update={"retry": spec.retry.model_copy(update={"max_attempts": 1})})


def _leaves_deadline(
    spec: Submission, typed: "TypedSubmission | None", repeats: Head | None = None
) -> bool:
    """Whether neither the submission nor its type says when it is too late, or that it never is.

    A stored submission without a type does not tell "none" from "not said". So of such a job that
    is submitted again, only one that had a deadline can be without: a change asks for the default.
    """
    if spec.deadline is not None:
        return False
    if typed is not None and typed.version is not None:
        return "deadline" not in typed.given
    if "deadline" in spec.model_fields_set:
        return False
    return repeats is None or repeats.deadline_ms is not None


def _sets_retry(
    spec: Submission, typed: "TypedSubmission | None", repeats: Head | None = None
) -> bool:
    """Whether the submission or its type says how often to try.

    Members of a group are tried once unless it does: docs/decisions/1431. A stored submission has
    what was decided then, but for what its type fills in.
    """
    if typed is not None and typed.version is not None:
        given = any(name.startswith("retry.") for name in typed.given)
        return given or typed.contract.defaults.retry is not None
    return repeats is not None or "retry" in spec.model_fields_set
