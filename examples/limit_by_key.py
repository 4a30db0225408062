"""Run one job of a customer at a time, and let one wait."""

from uuid import uuid4

from joblane import Client, Concurrency, KeyFullError

customer: Concurrency = {"key": ["customer", str(uuid4())], "max_active": 1, "max_queued": 1}

with Client.from_env() as client:
    running = client.submit(["sleep", "60"], concurrency=customer)
    waiting = client.submit(["echo", "hello"], concurrency=customer)
    print(waiting.state)
    try:
        client.submit(["echo", "hello"], concurrency=customer)
    except KeyFullError as error:
        print("refused:", error.active, error.queued)
    client.cancel(running.id)
    print(waiting.wait().state)

# Output:
# waiting
# refused: 1 1
# completed
