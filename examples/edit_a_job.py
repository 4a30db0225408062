"""Change a job that waits."""

from datetime import UTC, datetime, timedelta

from joblane import Client

with Client.from_env() as client:
    job = client.submit(
        ["./report"],
        run_at=datetime.now(UTC) + timedelta(hours=8),
        deadline=datetime.now(UTC) + timedelta(hours=12),
        labels={"team": "web"},
    )
    job.edit(queue="bulk", priority="high", labels={"team": None}, deadline=None)
    print(job.state, job.data.queue, job.data.priority)
    job.edit(timeout_s=7200, reason="twice as many rows")
    client.cancel(job.id, reason="only an example")

# Output:
# scheduled bulk high
