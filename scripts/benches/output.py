"""What the output of real jobs becomes and costs, and how soon a follower reads it.

`scripts/bench output [--lines 20]` deploys a cloud of its own and runs a silent job, one with a
line, a chatty one that nobody reads, one that is followed, and one that prints 20 MB. Chunks and
bytes are counted in the table and the bucket, where those jobs have left them; dollars are list
prices for 90 days (`scripts/costs`). The followed job prints a line a second with the time in it;
the follower is the SDK's, as in `joblane logs -f`, and each page that it gets is a request.
"""

import argparse
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from joblane import Client
from joblane.aws.clients import Clients
from joblane.deployment.names import table_name
from joblane.state.retention import Retention
from scripts.costs.places import Piece, Used, here
from scripts.local.cloud import DEPLOYMENT, TENANT, running_cloud

if TYPE_CHECKING:
    from mypy_boto3_dynamodb.client import DynamoDBClient

PYTHON = "/usr/bin/python3"

CHATTY = """
import sys, time
for n in range(int(sys.argv[1])):
    print("step", n, "of", sys.argv[1], "done after", n * 51 % 97, "ms", flush=True)
    time.sleep(0.1)
"""

TICKING = """
import sys, time
for n in range(int(sys.argv[1])):
    print(time.time(), flush=True)
    time.sleep(1)
"""
"""Prints the time, once a second."""

HUGE = ["seq", "2600000"]
"""20 MB."""

ROW = "{:<28} {:>7} {:>8} {:>11} {:>12} {:>6} {:>11}"


def main() -> int:
    """Print the figures of all jobs, then those of the follower."""
    parser = argparse.ArgumentParser(prog="scripts/bench output", description=__doc__)
    parser.add_argument("--lines", type=int, default=20, help="lines of the job that is followed")
    lines = parser.parse_args().lines
    with (
        tempfile.TemporaryDirectory(prefix="joblane-output-") as where,
        running_cloud(Path(where) / "run") as cloud,
        Client(cloud.url, cloud.token(machine="admin")) as client,
    ):
        os.environ.update(cloud.ministack.environment())
        cloud.start_agent("bench", threads=8)
        table = Clients().make("dynamodb")
        client.submit(["true"]).wait()  # warms the functions
        commands = {
            "silent": ["true"],
            "one line": ["echo", "hello"],
            "chatty, nobody reads": [PYTHON, "-c", CHATTY, str(10 * lines)],
            "huge": HUGE,
        }
        jobs = {name: client.submit(command) for name, command in commands.items()}
        followed = client.submit([PYTHON, "-c", CHATTY, str(10 * lines)])
        chatty_requests = sum(1 for _ in client.follow(followed.id))
        for job in jobs.values():
            job.wait()
        delays, requests, ticking = follow(client, lines)
        ids = {name: job.id for name, job in jobs.items()}
        ids |= {"chatty, followed": followed.id, "a line a second, followed": ticking}
        print(ROW.format("job", "chunks", "objects", "bytes", "write units", "puts", "$ a million"))
        for name, job_id in ids.items():
            _show(name, read_used(table, job_id))
    print(f"requests of `logs -f`: {chatty_requests} in {lines} s of ten lines a second")
    print(f"requests of `logs -f`: {requests} in {lines} s of a line a second")
    p95 = sorted(delays)[int(len(delays) * 0.95)]
    print(f"printed to read: median {statistics.median(delays):.0f} ms, 95 % {p95:.0f} ms")
    return 0


def follow(client: Client, lines: int) -> tuple[list[float], int, str]:
    """Follow a job that prints a line a second; returns each line's delay in ms, and requests."""
    job = client.submit([PYTHON, "-c", TICKING, str(lines)])
    delays: list[float] = []
    requests = 0
    for page in client.follow(job.id):
        now = time.time()
        requests += 1
        for entry in page.entries:
            delays += [(now - float(text)) * 1e3 for text in (entry.text or "").split()]
    return delays, requests, job.id


def read_used(table: "DynamoDBClient", job_id: str) -> Used:
    """Return what the output of a job of one attempt has used, by its rows."""
    rows: list[dict[str, Any]] = []
    for page in table.get_paginator("query").paginate(
        TableName=table_name(DEPLOYMENT, "output"),
        KeyConditionExpression="#stream = :stream",
        ExpressionAttributeNames={"#stream": "stream"},
        ExpressionAttributeValues={":stream": {"S": f"{TENANT}/{job_id}/1"}},
    ):
        rows += page["Items"]
    days = Retention().logs_days
    pieces = [
        Piece(
            records=int(row["last"]["N"]) - int(row["seq"]["N"]) + 1,
            printed=0,
            stored=len(row["data"]["B"]) if "data" in row else int(row["object"]["N"]),
            days=days,
        )
        for row in rows
    ]
    return here(pieces)


def _show(name: str, figures: Used) -> None:
    print(
        ROW.format(
            name,
            figures.chunks,
            figures.objects,
            f"{figures.stored:,}",
            figures.write_units,
            figures.chunks + figures.objects,
            f"{1e6 * figures.dollars:,.2f}",
        )
    )


if __name__ == "__main__":
    sys.exit(main())
