"""Calls of functions that are reserved, so that these run whatever others do (decision 0956)."""

from joblane.config import Config

REQUEUE_RESERVED = 2
"""One run, and the next if EventBridge is early."""

SCALER_RESERVED = 1
"""Two calls at once would decide by the same state twice."""

LETTERS_RESERVED = 4
"""Calls at once for both queues. Above it Lambda throttles, and the letters come back after their
visibility timeout: a dead-letter queue has no limit of receives that they could exceed."""

RECOVERY_RESERVED = 50
"""Calls of recovery, and of the tester, at once: recovery calls the tester for one test at a time.
A test takes 4 s at most and all other steps some 0.1 s, so these are 500 steps a second."""

SEQUEL_RESERVED = 10
"""Calls at once whatever other functions do: one for each shard of the stream, of which a new table
has four. Above it Lambda throttles, and a shard waits for its turn."""

NOTIFIER_RESERVED = 5
"""Calls at once, each of ten deliveries. Without a reservation Lambda would throttle while other
functions use up the account's concurrency, and each throttled delivery counts as an attempt."""


DUE_RESERVED = 20
"""Calls at once: each starts about 12 schedules a second (docs/SCALE.md), so ten thousand that are
due at midnight take less than a minute. Above it messages wait in their queue."""


def count_reserved(config: Config) -> int:
    """Return how many calls a deployment reserves if `reserved_concurrency` is true."""
    found = (
        REQUEUE_RESERVED + LETTERS_RESERVED + 2 * RECOVERY_RESERVED + SEQUEL_RESERVED + DUE_RESERVED
    )
    if config.fleets:
        found += SCALER_RESERVED
    if config.notify_rules is not None:
        found += NOTIFIER_RESERVED
    return found
