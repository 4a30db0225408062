"""Which tenants may use which queues."""

from collections.abc import Iterable, Mapping


def open_queues(tenants_of: Mapping[str, Iterable[str]], tenant: str) -> list[str]:
    """Return the queues that a tenant may use.

    `tenants_of` names the tenants of each queue; a queue that names none is open to all.
    """
    named = {queue: tuple(tenants) for queue, tenants in tenants_of.items()}
    return [queue for queue, tenants in named.items() if not tenants or tenant in tenants]
