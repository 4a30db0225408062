"""Who uses a deployment: tenants, and the role platform."""

from typing import Literal

from joblane.config.access import RoleArn
from joblane.config.strict import Strict
from joblane.contract.access import Role
from joblane.deployment.limits import LimitOverrides
from joblane.deployment.names import Name
from joblane.notify.rules import TenantNotify

DEFAULT_MACHINE = "default"


class Tenant(Strict):
    """A tenant, which owns jobs."""

    machines: dict[Name, Role] = {DEFAULT_MACHINE: "developer"}
    """Machines and their roles; each gets a client in the user pool, $6.00 a month, used or
    not. `{}` for none (docs/how-to/log-in.md has what else there is)."""
    iam: dict[RoleArn, Role] = {}
    """IAM roles of the deployment's account, by their ARNs, and the role that each has here. They
    need no client, no secret and no login: they sign their requests, to an API of their own."""
    limits: LimitOverrides = LimitOverrides()
    """Limits of this tenant that differ from those of `[limits]`."""
    default_queue: Name | None = None
    """Queue of its jobs that name none and for which no filter is true; without it, the
    deployment's."""
    notify: TenantNotify | None = None
    """Notifications that its jobs may ask for; without it, none."""
    events: Literal["eventbridge"] | None = None
    """`eventbridge`: put an event on the account's default EventBridge bus for every transition of
    each of its jobs and groups, about $2 for a million."""
    events_members: bool = False
    """Whether that includes the members of its groups."""
    export_jobs: bool = False
    """Whether its jobs are written to S3 when they end, about $2 for a million
    (docs/how-to/export-ended-jobs.md)."""


class Platform(Strict):
    """The role platform, which belongs to the deployment and to no tenant."""

    machines: tuple[Name, ...] = ()
    """Machines with this role; each gets a client in the user pool ($6.00 a month)."""
