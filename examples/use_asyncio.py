"""Run a command from a program with asyncio."""

import asyncio

from joblane import AsyncClient


async def main() -> None:
    """Submit, follow and wait; every call is awaited."""
    async with AsyncClient.from_env() as client:
        job = await client.submit(["echo", "hello"], name="nightly tests")
        async for record in job.logs(follow=True):
            print(record.text, end="")
        await job.wait()
        print(job.state)


asyncio.run(main())

# Output:
# hello
# completed
