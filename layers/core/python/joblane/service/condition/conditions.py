"""List the conditions that jobs wait for, and declare applications up or down."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from joblane.aws.condition.directory import AppStore, Directory, Listed
from joblane.condition.names import MOST_S, parse, scope_name, unscope_name
from joblane.contract.conditions import AppView, ConditionView, Declaration, OutageView
from joblane.contract.problems import wrong
from joblane.deployment.names import PLATFORM
from joblane.formats.times import rfc3339

if TYPE_CHECKING:
    from joblane.condition.policies import AnyPolicy


@dataclass(frozen=True)
class Conditions:
    """Lists conditions and declares applications up or down, for a tenant's operators."""

    directory: Directory
    apps: AppStore
    policy_of: "Callable[[str], AnyPolicy]"
    """Gives the policy of a kind; a function, because few requests need one."""
    clock: Callable[[], float]

    def page(
        self, tenant: str, limit: int, after: str | None
    ) -> tuple[list[ConditionView], str | None]:
        """Read a page of the conditions that a tenant's jobs wait for."""
        listed, following = self.directory.page(tenant, limit=limit, after=after)
        return [self._view(entry) for entry in listed], following

    def outages(self, tenant: str) -> tuple[OutageView, ...]:
        """Read what is declared down for a tenant, whether jobs wait for it or not."""
        now_s = int(self.clock())
        return tuple(
            OutageView(
                name=f"app:{down.app}",
                reason=down.why,
                until_at=rfc3339(down.until_s * 1000),
                all_tenants=not owner,
            )
            for owner in (tenant, "")
            for down in self.apps.outages(owner, now_s)
        )

    def declare(self, tenant: str, name: str, declared: Declaration, by: str) -> AppView:
        """Declare an application of a tenant up or down; `by` says who did it, and when.

        For `PLATFORM` it is the application of that name of every tenant.
        """
        app = parse(name if tenant == PLATFORM else scope_name(name, tenant)).parameter
        why = f"{declared.reason} ({by})" if declared.reason else by
        if declared.state == "up":
            self.apps.declare_up(app)
            return AppView(name=name, state="up", reason=why, until_at=None)
        until_s = int(self.clock()) + MOST_S
        self.apps.declare_down(app, why, until_s)
        return AppView(name=name, state="down", reason=why, until_at=rfc3339(until_s * 1000))

    def _view(self, entry: Listed) -> ConditionView:
        row = entry.row
        kind = row.condition.partition(":")[0]
        policy = self.policy_of(kind)
        return ConditionView(
            name=unscope_name(row.condition),
            kind=kind,
            since_at=rfc3339(entry.first_ms),
            waiting=entry.waiting,
            more=entry.more,
            reason=row.why,
            tests=row.tests,
            next_test_at=None if row.next_ms is None else rfc3339(row.next_ms),
            policy=policy.policy,
            gives_up_at=rfc3339(entry.first_ms + policy.most_s * 1000),
        )


def require_application(name: str) -> None:
    """Raise Invalid unless a condition is an application: only these can be declared."""
    try:
        kind = parse(name).kind
    except ValueError as error:
        raise wrong("condition", str(error)) from None
    if kind != "app" or unscope_name(name) != name:
        problem = "must be app: and the name of an application; the other kinds are tested"
        raise wrong("condition", problem)
