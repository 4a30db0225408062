"""Give a job times and limits."""

from datetime import UTC, datetime, timedelta

from joblane import Client

with Client.from_env() as client:
    job = client.submit(
        ["./report"],
        run_at=datetime.now(UTC) + timedelta(hours=8),
        deadline=datetime.now(UTC) + timedelta(hours=12),
        timeout_s=timedelta(minutes=30),
        retry={"max_attempts": 5, "backoff_s": [timedelta(minutes=1)]},
        resources={"memory_mb": 2048},
    )
    print(job.state)
    client.cancel(job.id, reason="only an example")

# Output:
# scheduled
