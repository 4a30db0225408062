"""Run a command on each agent of a queue, two at a time."""

from joblane import Client

with Client.from_env() as client:
    job = client.submit(["uname", "-r"], target="_all", max_concurrency=2, reply_timeout_s=30)
    for news in client.groups.follow(job.id):
        for member in news.ended:
            print(member.agent, member.state, member.exit_code)
    job.wait()  # completed, partial_failure, failed or skipped

# Output:
# ...local completed 0...
