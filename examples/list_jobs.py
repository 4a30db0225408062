"""List jobs by state, label and time."""

from datetime import UTC, datetime, timedelta
from uuid import uuid4

from joblane import Client

run = str(uuid4())
yesterday = datetime.now(UTC) - timedelta(days=1)

with Client.from_env() as client:
    for code in ("0", "3"):
        command = ["sh", "-c", f"exit {code}"]
        client.submit(command, labels={"run": run}, retry={"max_attempts": 1}).wait()
    for job in client.list(state="dead", labels={"run": run}, since=yesterday):
        print(job.state, job.reason)

# Output:
# dead exit code 3 after ... s (attempt 1 of 1)
