"""Output of real jobs: followed line by line, read from its end, and deleted with its job."""

import os
import socket
import sys
from collections.abc import Iterator
from itertools import islice

import pytest

from ec2_agent.settings import PACE
from joblane import Client
from joblane.aws.clients import Clients
from joblane.deployment.names import bucket_name, table_name
from scripts.local.cloud import DEPLOYMENT, TENANT, Cloud
from scripts.local.emulator import ACCOUNT, REGION
from tests.e2e.conftest import Http
from tests.support import paced_agent
from tests.support.deployed import submit, wait_for

LINES = 6

PROGRAM = (
    *(sys.executable, "-P", paced_agent.__file__, "--unread-s", "3600"),
    *map(str, (PACE.heartbeat_s, PACE.lease_s, PACE.margin_s)),
)
"""An agent that ships the second chunk of a job that nobody follows after an hour: what is read
before was shipped because of the command `follow`, however busy the host is."""

WORK = """
import socket, sys
link = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
for number in range(int(sys.argv[2])):
    print(number, flush=True)
    link.recv(1)
"""
"""Prints a line once somebody has seen the one before."""


@pytest.fixture(name="host_network")
def _host_network(quiet: Cloud) -> Iterator[Cloud]:
    quiet.start_agent("followed", options=("--allow-host-network",), program=PROGRAM)
    yield quiet
    quiet.stop_agent("followed")  # output of other tests' jobs would wait for an hour


def test_whoever_follows_sees_each_line_before_the_next_chunk_is_due(
    host_network: Cloud, http: Http
):
    """Nobody follows at the job's start, so its agent has to be told."""
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        Client(host_network.url, host_network.token(machine="admin")) as client,
    ):
        server.settimeout(60)
        port = server.getsockname()[1]
        command = ("/usr/bin/python3", "-I", "-S", "-c", WORK, str(port), str(LINES))
        job_id = submit(http, *command, network="host")
        link, _ = server.accept()
        seen = []
        with link:
            for record in islice(client.logs(job_id, follow=True), LINES):
                seen.append(record)
                link.sendall(b"x")
    assert [f"{number}\n" for number in range(LINES)] == [record.text for record in seen]


def test_the_output_of_a_job_is_read_from_its_end_and_goes_with_it(
    cloud: Cloud, clients: Clients, http: Http, agent: None
):
    assert agent is None
    table, s3 = clients.make("dynamodb"), clients.make("s3")
    noise = os.urandom(20_000).hex()
    job_id = submit(http, "sh", "-c", f"echo {noise}; sleep 0.3; seq 9")
    assert "completed" == wait_for(http, job_id, "completed")["state"]

    def stored() -> tuple[int, int]:
        rows = table.query(
            TableName=table_name(DEPLOYMENT, "output"),
            KeyConditionExpression="#stream = :stream",
            ExpressionAttributeNames={"#stream": "stream"},
            ExpressionAttributeValues={":stream": {"S": f"{TENANT}/{job_id}/1"}},
        )["Items"]
        bucket = bucket_name(DEPLOYMENT, ACCOUNT, REGION)
        found = s3.list_objects_v2(Bucket=bucket, Prefix=f"output/{TENANT}/{job_id}/")
        return len(rows), found["KeyCount"]

    rows, objects = stored()
    assert rows > objects >= 1
    with Client(cloud.url, cloud.token(machine="admin")) as client:
        assert "7\n8\n9\n" == "".join(record.text for record in client.logs(job_id, tail=3))
        client.delete(job_id)
    assert (0, 0) == stored()
