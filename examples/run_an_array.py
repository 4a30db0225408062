"""Run a job for each value of an array, and collect the results."""

from joblane import Client

SQUARE = 'echo "{\\"result\\": $((JOBLANE_ARRAY_VALUE * JOBLANE_ARRAY_VALUE))}" >&3'

with Client.from_env() as client:
    job = client.submit(["sh", "-c", SQUARE], array={"values": [1, 2, 3, 4]})
    job.wait(check=True)
    print([each.result() for each in job.results()])

# Output:
# [1, 4, 9, 16]
