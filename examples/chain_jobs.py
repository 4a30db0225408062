"""Run one job after the other: each leaves a file that the next one takes as an input."""

from pathlib import Path
from tempfile import TemporaryDirectory

from joblane import Client

with Client.from_env() as client, TemporaryDirectory() as folder:
    first = client.submit(["sh", "-c", "seq 4 > numbers"], outputs=["numbers"])
    if first.wait().state != "completed":
        raise SystemExit(first.reason)
    first.download(folder)
    total = "awk '{ sum += $1 } END { print sum }' numbers"
    second = client.submit(["sh", "-c", total], inputs=[(Path(folder, "numbers"), "numbers")])
    for record in second.logs(follow=True):
        print(record.text, end="")

# Output:
# 10
