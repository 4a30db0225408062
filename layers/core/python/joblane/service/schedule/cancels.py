"""Cancel what a schedule has started, a job or a group."""

from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from joblane.job.moves import NotAllowed
from joblane.service.job.operations import Gone, Operations

if TYPE_CHECKING:  # few schedules start groups
    from collections.abc import Callable

    from joblane.service.group.cancel import GroupCancel


@dataclass(frozen=True)
class Cancels:
    """Cancels jobs and groups. May be called again after a crash at any point."""

    operations: Operations
    groups: "Callable[[], GroupCancel]"

    def cancel(self, job_id: str, why: str, now_ms: int) -> None:
        """Ask for the end of a job or group; one that has ended, or is gone, is left as it is."""
        head = self.operations.jobs.get(job_id)
        if head is None or head.ended:
            return
        with suppress(NotAllowed, Gone):
            if not head.spec.makes_group:
                self.operations.cancel(head, why, now_ms)
                return
            page: int | None = None
            while True:
                page = self.groups().cancel(head, why, now_ms, page=page).following
                if page is None:
                    return
