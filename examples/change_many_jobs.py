"""Cancel all jobs that a filter selects, and submit them again with another limit."""

from datetime import UTC, datetime, timedelta
from uuid import uuid4

from joblane import Client

run = str(uuid4())
tomorrow = datetime.now(UTC) + timedelta(days=1)

with Client.from_env() as client:
    for n in range(3):
        client.submit(["echo", str(n)], labels={"run": run}, run_at=tomorrow)
    for page in client.cancel_jobs(labels={"run": run}, reason="wrong input"):
        print(page.cancelled, page.refused)
    changes = {"run_at": None, "timeout_s": 60}
    for copies in client.resubmit_jobs(labels={"run": run}, changes=changes):
        print(copies.resubmitted, copies.already)

# Output:
# 3 []
# 3 0
