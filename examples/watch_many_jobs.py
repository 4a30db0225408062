"""Wait for many jobs, and see each as it ends."""

from joblane import Client

with Client.from_env() as client:
    entries = client.submit_batch([{"command": ["echo", name]} for name in ("a", "b", "c")])
    ids = [entry.job.id for entry in entries if entry.job]
    for found in client.watch(ids, timeout_s=600):
        for job in found.ended:
            print(job.state, job.reason)

# Output:
# completed exit code 0 after ... s
# completed exit code 0 after ... s
# completed exit code 0 after ... s
