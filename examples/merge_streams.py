"""Keep standard output and standard error in the order in which they were written."""

from joblane import Client

SCRIPT = "for n in 1 2; do echo out $n; echo err $n >&2; done"

with Client.from_env() as client:
    job = client.submit(["sh", "-c", SCRIPT], merge_stderr=True)
    for record in job.logs(follow=True):
        print(record.text, end="")

# Output:
# out 1
# err 1
# out 2
# err 2
