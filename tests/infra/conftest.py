"""What the infrastructure tests share: the templates of two configurations, synthesized once."""

import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

# Before anything imports aws_cdk, which starts Node: ours, and no other that is on PATH.
os.environ.setdefault("JSII_NODE", str(Path(sys.executable).parent / "node"))

from infra.config import load_config
from tests.infra.synthesis import ROOT, Deployment, synthesize


@pytest.fixture(scope="session")
def production() -> Iterator[Deployment]:
    """The repository's own joblane.toml: data is kept, one fleet."""
    deployment = synthesize(load_config(ROOT / "joblane.toml"))
    yield deployment
    shutil.rmtree(deployment.folder)


@pytest.fixture(scope="session")
def laptop() -> Iterator[Deployment]:
    """The local deployment: nothing is kept, no fleet, two queues, two tenants."""
    deployment = synthesize(load_config(ROOT / "scripts/local/joblane.toml"))
    yield deployment
    shutil.rmtree(deployment.folder)
