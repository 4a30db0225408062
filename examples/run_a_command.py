"""Run a command and follow its output."""

from joblane import Client

with Client.from_env() as client:
    job = client.submit(["echo", "hello"], timeout_s=300, labels={"team": "web"})
    for record in job.logs(follow=True):
        print(record.text, end="")
    print(job.refresh().state, job.exit_code)

# Output:
# hello
# completed 0
