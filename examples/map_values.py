"""Run one job for each value; `{}` stands for it."""

from joblane import Client

with Client.from_env() as client:
    for page in client.map(["test", "{}", "-lt", "2"], range(3), retry={"max_attempts": 1}):
        print(page.value, page.error or "completed")

# Output:
# 0 completed
# 1 completed
# 2 job ... dead: exit code 1 after ... s (attempt 1 of 1)
