"""Count the bytes whose upload is prepared, by tenant and day, and refuse what is above its limit.

Before a request is signed, since S3 asks nobody afterwards: what was signed counts, uploaded or
not.
"""

from collections.abc import Callable
from dataclasses import dataclass

from joblane.aws.queue.usage import UploadStore
from joblane.deployment.limits import Limits
from joblane.queue.usage import DAY_MS, MEBIBYTE, of_a_day
from joblane.service.deployment.limit_check import over_limit


@dataclass(frozen=True)
class UploadMeter:
    """Says whether a tenant may upload so many bytes more today."""

    store: UploadStore
    limits: Limits
    now_ms: Callable[[], int]
    """Returns Unix milliseconds."""

    def require(self, tenant: str, size: int) -> None:
        """Count `size` bytes. Raises LimitReached if they are above `upload_mb_per_day` in all.

        Two requests of a tenant that together are above it:

            A                          counters                     B
            add 60, if <= 40  ----->   60
                                       60 > 40: refused   <-----    add 60, if <= 40
        """
        if not size:
            return
        now_ms = self.now_ms()
        day, allowed = now_ms // DAY_MS, self.limits.of(tenant).upload_mb_per_day
        counted, current = self.store.add(tenant, day, size, allowed * MEBIBYTE)
        if counted:
            return
        reached = of_a_day("upload_mb_per_day", allowed, current // MEBIBYTE, now_ms)
        raise over_limit(reached, now_ms)
