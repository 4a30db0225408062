"""What the infrastructure tests share: the templates of three configurations, synthesized once.

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
from joblane.config import Config
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


@pytest.fixture(scope="session")
def varied(tmp_path_factory: pytest.TempPathFactory) -> Deployment:
    """A deployment with what the other two do not have, and that does without anything else."""
    config = Config.model_validate(
        {
            "tenants": {
                "main": {
                    "notify": {
                        "secret": "secretsmanager:joblane/main/notify",
                        "topics": ["arn:aws:sns:eu-west-1:111122223333:jobs"],
                    }
                },
                "other": {},
            },
            "queues": {"default": {}, "big": {"filter": "cpus > 2.0", "filter_order": 1}},
            "functions": {"reserved_concurrency": False},
            "observability": {
                "traces": {
                    "endpoint": "https://otlp.example.com/v1/traces",
                    "headers": "ssm:/tracing/otlp",
                }
            },
            "access": {
                "issuer": "https://id.example.com/realms/main",
                "audience": ["joblane"],
                "tenant_claim": "tenant",
                "client_id": "console",
                "token_origins": ["https://id.example.com", "https://token.example.com:8443"],
            },
        }
    )
    return synthesize(config, tmp_path_factory.mktemp("varied"))
