"""What the infrastructure tests share: the templates of two configurations, synthesized once.

cdk-nag checks both as it would for `cdk deploy`: a violation fails the synthesis.
"""

import os
import sys
from pathlib import Path

import pytest

# Before anything imports aws_cdk, which starts Node: ours, and no other that is on PATH.
os.environ.setdefault("JSII_NODE", str(Path(sys.executable).parent / "node"))

from cdk_nag import AwsSolutionsChecks

from infra.config import load_config
from tests.infra.synthesis import ROOT, Deployment, synthesize


@pytest.fixture(scope="session")
def production(tmp_path_factory: pytest.TempPathFactory) -> Deployment:
    """The repository's own joblane.toml: data is kept, one fleet."""
    config = load_config(ROOT / "joblane.toml")
    folder = tmp_path_factory.mktemp("production")
    return synthesize(config, folder, [AwsSolutionsChecks()], validated=True)


@pytest.fixture(scope="session")
def laptop(tmp_path_factory: pytest.TempPathFactory) -> Deployment:
    """The local deployment: nothing is kept, one fleet, two queues, two tenants.

    The CDK checks it whenever it is deployed.
    """
    config = load_config(ROOT / "scripts/local/joblane.toml")
    folder = tmp_path_factory.mktemp("laptop")
    return synthesize(config, folder, [AwsSolutionsChecks()])
