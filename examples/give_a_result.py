"""Return a result from a program in any language, and report progress."""

from joblane import Client

SCRIPT = """
echo '{"progress": {"step": "count", "current": 1, "total": 2}}' >&3
echo '{"result": {"rows": 42}}' >&3
"""

with Client.from_env() as client:
    job = client.submit(["sh", "-c", SCRIPT])
    job.wait()
    print(job.data.result)

# Output:
# {'rows': 42}
