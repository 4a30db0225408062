"""See which jobs of an array failed, and run these again."""

from joblane import Client

with Client.from_env() as client:
    job = client.submit(
        ["sh", "-c", 'test "$JOBLANE_ARRAY_INDEX" -ne 3'],
        array={"first": 1, "last": 5},
        retry={"max_attempts": 1},
    )
    for now in client.groups.watch(job.id):
        failed = now.failed_indices  # now.counts has the number of jobs in each state
    print(job.wait().state, failed)
    for each in job.results():
        if each.error:
            print(each.index, each.member.exit_code)
    print(sum(page.retried for page in client.groups.retry(job.id, indices=failed)))

# Output:
# partial_failure 3
# 3 1
# 1
