"""Wait for a job, and see how it ended."""

from joblane import Client, JobFailedError

with Client.from_env() as client:
    job = client.submit(["sh", "-c", "exit 3"], retry={"max_attempts": 1})
    try:
        job.wait(timeout_s=600, check=True)  # WaitTimeoutError after that; the job continues
    except JobFailedError as error:
        print(error.job.state, error.job.exit_code)
        print(error.job.reason)

# Output:
# dead 3
# exit code 3 after ... s (attempt 1 of 1)
