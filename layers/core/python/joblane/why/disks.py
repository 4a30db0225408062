"""Why agents with free slots do not start a job: the disk that it asks for is not free."""

from collections.abc import Sequence

from joblane.formats.text import some
from joblane.state.lease import Heartbeat
from joblane.why.capacity import QueueCapacity
from joblane.why.edits import within_disk_of
from joblane.why.reason import Fact, Reason
from joblane.why.situation import Situation


def disk_full(
    s: Situation, capacity: QueueCapacity, rows: Sequence[Heartbeat], facts: dict[str, Fact]
) -> Reason:
    """Say what the job asks of the disk, and what the agent has that has most of it."""
    short = {row.name: capacity.short_disk(row) for row in rows}
    asks = [(ask.has.free_mb, name, ask) for name, ask in short.items() if ask is not None]
    free_mb, name, ask = max(asks)
    free_mb = max(0, free_mb)
    have = "has" if len(rows) == 1 else "have"
    return Reason(
        "disk_full",
        f"{some(len(rows), 'agent')} with free slots {have} too little {ask.what} free: it asks "
        f"for {ask.asked_mb} MB, and {name} has {free_mb} of {ask.has.most_mb} MB free for jobs; "
        "it starts when jobs there end. To start sooner it needs a smaller disk_mb or smaller "
        "input files, or an agent with a larger disk",
        {
            "queue": s.head.queue,
            "agents": len(rows),
            "agent": name,
            "asked_mb": ask.asked_mb,
            "free_mb": free_mb,
            "most_mb": ask.has.most_mb,
            **facts,
        },
        (f"joblane agents get {name}", *within_disk_of(s, rows, lambda disk: disk.free_mb)),
    )
