"""An agent imports nothing of what writes botocore's documentation (decision 1767)."""

import os
import subprocess
import sys

import pytest

WRITERS = {"botocore.docs.service", "botocore.docs.bcdoc", "html.parser"}

AGENT = """
import contextlib, runpy, sys
sys.argv = ["agent", "doctor", "--json"]
with contextlib.suppress(SystemExit):
    runpy.run_module("ec2_agent", run_name="__main__")
"""
CLIENT = """
import sys
{left_out}
from joblane.aws.clients import Clients
client = Clients().make("s3")
assert client.can_paginate("list_objects_v2")
client.put_object.__doc__
"""
LEFT_OUT = "import ec2_agent.undocumented as un; un.leave_out_documentation()"


def imported(code: str) -> set[str]:
    environment = {**os.environ, "AWS_DEFAULT_REGION": "eu-central-1"}
    command = [sys.executable, "-P", "-c", f"{code}\nprint(); print(*sys.modules)"]
    said = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    return set(said.stdout.splitlines()[-1].split())


@pytest.mark.parametrize("code", [AGENT, CLIENT.format(left_out=LEFT_OUT)])
def test_an_agent_and_its_clients_do_without_it(code: str) -> None:
    found = imported(code)
    assert "botocore.client" in found
    assert set() == WRITERS & found


def test_other_clients_import_it() -> None:
    assert WRITERS <= imported(CLIENT.format(left_out=""))
