"""Cancel a running job, which puts things in order before it ends."""

from joblane import Client

SCRIPT = """
trap 'echo removed the lock; exit' TERM
echo started
sleep 60 & wait
"""

with Client.from_env() as client:
    job = client.submit(["sh", "-c", SCRIPT])
    for record in job.logs(follow=True):
        print(record.text, end="")
        if record.text == "started\n":
            client.cancel(job.id, reason="wrong input")
    print(job.refresh().state)

# Output:
# started
# removed the lock
# cancelled
