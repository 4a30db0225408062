"""Let a job be retried."""

from joblane import Client

with Client.from_env() as client:
    job = client.submit(
        ["sh", "-c", "echo attempt $JOBLANE_ATTEMPT; test $JOBLANE_ATTEMPT -gt 1"],
        retry={"max_attempts": 3, "backoff_s": [0.1, 60]},
    )
    for record in job.logs(follow=True):
        print(record.text, end="")
    print(job.refresh().state)

# Output:
# attempt 1
# attempt 2
# completed
