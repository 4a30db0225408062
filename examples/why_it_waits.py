"""Find out why a job waits, from a program."""

from datetime import UTC, datetime, timedelta

from joblane import Client

with Client.from_env() as client:
    job = client.submit(["./report"], run_at=datetime.now(UTC) + timedelta(hours=8))
    if job.warning:  # why no live agent could serve it now
        print(job.warning)
    found = client.why(job.id)
    print(found.reasons[0].code)
    client.cancel(job.id, reason="only an example")

# Output:
# run_at
