"""Submit a job that has failed again, with a change."""

from joblane import Client

with Client.from_env() as client:
    job = client.submit(["sh", "-c", 'test "$MODE" = full'], retry={"max_attempts": 1})
    print(job.wait().state)
    again = client.resubmit(job.id, changes={"env": {"MODE": "full"}, "deadline": None})
    print(again.wait().state, again.id != job.id)

# Output:
# dead
# completed True
