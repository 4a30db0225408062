"""Submit up to 100 jobs in one request; each has an answer of its own."""

from joblane import Client, Submission

jobs: list[Submission] = [
    {"command": ["echo", f"page {n}"], "labels": {"batch": "first"}} for n in range(3)
]
jobs.append({"command": ["echo"], "timeout_s": -1})

with Client.from_env() as client:
    for entry in client.submit_batch(jobs):
        if entry.job is not None:
            print(entry.job.wait().state)
        else:
            print("refused:", entry.error)

# Output:
# completed
# completed
# completed
# refused: ...timeout_s...
