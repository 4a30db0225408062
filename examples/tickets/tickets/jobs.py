from pydantic import BaseModel

from joblane import Job, Key, PermanentError, job_type


class SyncTickets(BaseModel):
    origin: str
    tickets: list[int]


class SyncResult(BaseModel):
    synced: int


@job_type(
    "sync-tickets",
    items="/tickets",
    key=Key("zendesk", "/origin", max_active=1, max_queued=10),
    timeout_s=300,
)
def sync_tickets(params: SyncTickets, job: Job) -> SyncResult:
    """Copy tickets of a customer to the archive."""
    if params.origin == "closed":
        raise PermanentError("the account is closed")
    synced = 0
    for ticket in params.tickets:
        if job.cancelled:
            break
        job.log.info("ticket %d", ticket)
        synced += 1
        job.progress(100 * synced / len(params.tickets), f"ticket {ticket}")
    return SyncResult(synced=synced)
