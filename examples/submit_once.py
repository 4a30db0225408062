"""Submit exactly once, whatever happens to the answer."""

from joblane import Client

with Client.from_env() as client:
    first = client.submit(["echo", "charged"], idempotency_key="order-4711")
    again = client.submit(["echo", "charged"], idempotency_key="order-4711")
    print(first.id == again.id)

# Output:
# True
