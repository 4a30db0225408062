"""Check submissions against the limits of their tenant.

The figures are counted by the projector, a few seconds late. A function reads those of a tenant
at most every 10 s (every second before a refusal), and adds what it has accepted itself since. So
the limits are exceeded by at most what all functions together accept within some 15 s
(docs/decisions/0953).
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from joblane.aws.queue.usage import UsageStore
from joblane.contract.problems import LimitReached, Problem
from joblane.deployment.limits import Limits
from joblane.errors import Unavailable
from joblane.formats.times import rfc3339
from joblane.queue.usage import Excess, Figures, excess, room
from joblane.service.log import Log

READ_AGAIN_MS = 10_000
"""How long figures are used; also how long a failed read is not repeated."""

FRESH_MS = 1_000
"""Nobody is refused by figures that were read longer ago than this."""


@dataclass(slots=True)
class _Known:
    figures: Figures
    read_ms: int
    accepted: int = 0
    """Jobs that this function has accepted since."""

    @property
    def expected(self) -> Figures:
        return replace(self.figures, waiting=self.figures.waiting + self.accepted)


@dataclass(frozen=True)
class LimitCheck:
    """Says how many jobs a tenant may submit."""

    usage: UsageStore
    limits: Limits
    now_ms: Callable[[], int]
    """Returns Unix milliseconds."""
    log: Log
    _known: dict[str, _Known] = field(default_factory=dict)

    def explain_closed(self, tenant: str) -> Problem | None:
        """Return why not even one more job is accepted; None if one is. Counts nothing.

        Asked before a submission is looked at, which may take time of the function.
        """
        limits, now_ms = self.limits.of(tenant), self.now_ms()
        if room(limits, self._read(tenant, now_ms, READ_AGAIN_MS).expected, now_ms) > 0:
            return None
        known = self._read(tenant, now_ms, FRESH_MS).expected
        reached = excess(limits, known, now_ms)
        return None if reached is None else self._refuse(tenant, reached, 1, now_ms)

    def admit(self, tenant: str, jobs: int = 1) -> tuple[int, Problem | None]:
        """Return how many of so many jobs are accepted, and the problem of the others.

        Those that are accepted count as submitted. Figures that cannot be read limit nobody.
        """
        limits, now_ms = self.limits.of(tenant), self.now_ms()
        known = self._read(tenant, now_ms, READ_AGAIN_MS)
        if room(limits, known.expected, now_ms) < jobs:
            known = self._read(tenant, now_ms, FRESH_MS)
        accepted = min(jobs, max(0, room(limits, known.expected, now_ms)))
        known.accepted += accepted
        reached = excess(limits, known.expected, now_ms) if accepted < jobs else None
        if reached is None:
            return accepted, None
        return accepted, self._refuse(tenant, reached, jobs - accepted, now_ms)

    def require(self, tenant: str, jobs: int = 1) -> None:
        """Raise LimitReached unless so many more jobs are accepted, all of them."""
        limits, now_ms = self.limits.of(tenant), self.now_ms()
        if room(limits, self._read(tenant, now_ms, READ_AGAIN_MS).expected, now_ms) < jobs:
            known = self._read(tenant, now_ms, FRESH_MS).expected
            if (reached := excess(limits, known, now_ms, jobs)) is not None:
                raise self._refuse(tenant, reached, jobs, now_ms)
        self._read(tenant, now_ms, READ_AGAIN_MS).accepted += jobs

    def note(self, tenant: str, jobs: int) -> None:
        """Count jobs that were accepted beside those that were asked for."""
        self._read(tenant, self.now_ms(), READ_AGAIN_MS).accepted += jobs

    def _refuse(self, tenant: str, reached: Excess, jobs: int, now_ms: int) -> Problem:
        self.log.warning(
            "submission refused",
            tenant=tenant,
            limit=reached.limit,
            allowed=reached.allowed,
            current=reached.current,
            jobs=jobs,
        )
        return over_limit(reached, now_ms)

    def _read(self, tenant: str, now_ms: int, oldest_ms: int) -> _Known:
        known = self._known.get(tenant)
        if known is not None and now_ms - known.read_ms < oldest_ms:
            return known
        try:
            accounts, _ = self.usage.accounts(tenant)
        except Unavailable:
            self.log.exception("limits are not checked: the figures cannot be read", tenant=tenant)
            accounts = None
        figures = Figures() if accounts is None else accounts.figures.present
        known = self._known[tenant] = _Known(figures, now_ms)
        return known


def over_limit(reached: Excess, now_ms: int) -> Problem:
    """The answer to a tenant that has reached a limit, with when to try again."""
    until = rfc3339(reached.until_ms)
    return LimitReached(
        f"{reached.sentence()}; try again at {until}",
        retry_after_s=max(1, -(-(reached.until_ms - now_ms) // 1000)),
        members={
            "limit": reached.limit,
            "allowed": reached.allowed,
            "current": reached.current,
            "until": until,
        },
    )
