"""Let exit codes say that another attempt is no use, or that there is nothing to do."""

from joblane import Client

with Client.from_env() as client:
    for code in (65, 4):
        job = client.submit(
            ["sh", "-c", f"exit {code}"],
            exit_codes={"permanent": [65], "skipped": [4]},
        )
        print(code, job.wait().state)

# Output:
# 65 failed
# 4 skipped
