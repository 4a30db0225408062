"""Wait until a job has ended, in whatever state."""

from joblane import Client

with Client.from_env() as client:
    job = client.submit(["sh", "-c", "exit 3"], retry={"max_attempts": 1})
    job.wait(timeout_s=600)  # WaitTimeoutError after that; the job continues
    print(job.state, job.exit_code)
    print(job.reason)

# Output:
# dead 3
# exit code 3 after ... s (attempt 1 of 1)
