"""Which tenants may use which queues, and who may change them."""

from collections.abc import Iterable, Mapping

from joblane.deployment.names import PLATFORM


def open_queues(tenants_of: Mapping[str, Iterable[str]], tenant: str) -> list[str]:
    """Return the queues that a tenant may use, or that the role platform may: all.

    `tenants_of` names the tenants of each queue; a queue that names none is open to all.
    """
    named = {queue: tuple(tenants) for queue, tenants in tenants_of.items()}
    return [
        queue
        for queue, tenants in named.items()
        if not tenants or tenant in tenants or tenant == PLATFORM
    ]


def may_change(named: Iterable[str], tenant: str) -> bool:
    """Whether a tenant's operators, or the role platform, may change a queue.

    `named` are its tenants in joblane.toml: a queue is a tenant's own if it names that one alone.
    """
    return tenant == PLATFORM or {tenant} == set(named)


def owner(queues: Iterable[Iterable[str]]) -> str | None:
    """The tenant that every one of these queues names alone; None if there is no such tenant."""
    named = {tuple(sorted(set(tenants))) for tenants in queues}
    match list(named):
        case [(tenant,)]:
            return tenant
    return None
