"""Runs commands of `aws` in one process: a start takes longer than what a command does."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

PROGRAM = """
import contextlib, io, json, sys
from awscli.clidriver import create_clidriver
ended = []
for words in json.load(sys.stdin):
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = create_clidriver().main(words)
    ended.append([code, out.getvalue(), err.getvalue()])
json.dump(ended, sys.stdout)
"""


class Ended(NamedTuple):
    """How a command has ended."""

    code: int
    out: str
    err: str


def check_by_aws(commands: list[list[str]], home: Path) -> list[Ended]:
    """Have `aws` check operation, options and values of commands; nothing is called."""
    run = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        input=json.dumps([[*words, "--generate-cli-skeleton", "output"] for words in commands]),
        env={"PATH": os.environ["PATH"], "HOME": str(home), "AWS_DEFAULT_REGION": "eu-west-1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    return [Ended(*each) for each in json.loads(run.stdout)]
