"""Of the jobs that wait for a key, keep the newest."""

from uuid import uuid4

from joblane import Client, Concurrency

page: Concurrency = {
    "key": ["page", str(uuid4())],
    "max_active": 1,
    "max_queued": 1,
    "when_full": "replace-oldest",
}

with Client.from_env() as client:
    running = client.submit(["sleep", "60"], concurrency=page)
    older = client.submit(["echo", "older"], concurrency=page)
    newest = client.submit(["echo", "newest"], concurrency=page)
    print(newest.admission, older.refresh().state)
    client.cancel(running.id)
    print(newest.wait().state)

# Output:
# replaced skipped
# completed
