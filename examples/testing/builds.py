from pydantic import BaseModel

from joblane import Client, Job, JobRef, PermanentError, job_type


class Sync(BaseModel):
    origin: str
    tickets: list[int]


@job_type("sync", retry={"max_attempts": 3, "backoff_s": [60, 600]})
def sync(params: Sync, job: Job) -> int:
    """Copy tickets of a customer to the archive."""
    if params.origin == "closed":
        raise PermanentError("the account is closed")
    job.log.info("copy %d tickets", len(params.tickets))
    return len(params.tickets)


def rebuild(client: Client, branch: str) -> JobRef:
    """Build a branch."""
    return client.submit(["make", branch], priority="high", labels={"team": "web"})


def rebuild_from_env(branch: str) -> str:
    """Build a branch by the client of this machine, and say what it printed."""
    with Client.from_env() as client:
        job = rebuild(client, branch).wait(check=True)
        return "".join(record.text for record in job.logs())
