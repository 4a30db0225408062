"""What the infrastructure tests share: the templates of some configurations, synthesized once.

A synthesis takes a CPU second or more. Put a setting that a test needs into one of these, where it
changes nothing that other tests read. cdk-nag checks each as it would for `cdk deploy`: a violation
fails the synthesis.
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
from joblane.config.access import Domain, Issuer
from joblane.config.fleet import FleetState
from joblane.config.observability import Observability
from joblane.config.tenant import Platform, Tenant
from joblane.contract.access import ROLES
from tests.infra.synthesis import ROOT, Deployment, synthesize
from tests.support.depth import DEEP

ROLE_ARN = "arn:aws:iam::111122223333:role/ci/builds"
"""Of a role that may call the deployment `varied`."""

ISSUER = {
    "issuer": "https://id.acme.example/realms/acme",
    "audience": ["joblane-prod"],
    "tenant_claim": "team",
    "client_id": "joblane-cli",
}


@pytest.fixture(scope="session")
def production(tmp_path_factory: pytest.TempPathFactory) -> Deployment:
    """The repository's own joblane.toml: data is kept, one fleet.

    The CDK's own plugin has many of cfn-lint's rules, which test_checks.py applies to the same
    templates; it looks at them in a deep run.
    """
    config = load_config(ROOT / "joblane.toml")
    folder = tmp_path_factory.mktemp("production")
    return synthesize(config, folder, [AwsSolutionsChecks()], validated=DEEP)


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
    """What a deployment may have beside: all alarms, IAM roles, an issuer that gives scopes."""
    config = Config.model_validate(
        {
            "tenants": {
                "main": {
                    "notify": {
                        "secret": "secretsmanager:joblane/main/notify",
                        "topics": ["arn:aws:sns:eu-west-1:111122223333:jobs"],
                    }
                },
                "other": {"iam": {ROLE_ARN: "developer"}, "export_jobs": True},
            },
            "queues": {"default": {}, "big": {"filter": "cpus > 2.0", "filter_order": 1}},
            "fleets": {"main": {"queues": ["default"]}},
            "functions": {"reserved_concurrency": False},
            "observability": {
                "level": "full",
                "traces": {
                    "endpoint": "https://otlp.example.com/v1/traces",
                    "headers": "ssm:/tracing/otlp",
                },
            },
            "access": {
                **ISSUER,
                "token_origins": ["https://id.acme.example", "https://token.acme.example:8443"],
            },
        }
    )
    return synthesize(config, tmp_path_factory.mktemp("varied"), [AwsSolutionsChecks()])


SETUP = "#!/bin/sh\nnvidia-smi\n"
"""The setup file of the fleet `disk`."""


@pytest.fixture(scope="session")
def others(production: Deployment, tmp_path_factory: pytest.TempPathFactory) -> Deployment:
    """Production's fleet three times, each with other settings, and an issuer that gives roles."""
    changes: dict[str, dict[str, object]] = {
        "disk": {
            "disk_gb": 200,
            "ami": "ami-0123456789abcdef0",
            "packages": ("ffmpeg-free", "git"),
            "setup": "setup.sh",
            "state": FleetState(backend="dynamodb"),
        },
        "spot": {
            "instance_types": ("c7g.large", "c6g.large", "m7g.large"),
            "spot_percent": 80,
            "on_demand_base": 2,
        },
        "kept": {"idle_s": "never", "ami": "/images/golden-arm64"},
    }
    main = production.config.fleets["main"]
    fleets = {name: main.model_copy(update=update) for name, update in changes.items()}
    access = Issuer.model_validate({**ISSUER, "role_claim": "joblane_role"})
    config = production.config.model_copy(update={"fleets": fleets, "access": access})
    setup = tmp_path_factory.mktemp("setup") / "setup.sh"
    setup.write_text(SETUP, encoding="utf-8")
    folder = tmp_path_factory.mktemp("others")
    return synthesize(config, folder, [AwsSolutionsChecks()], setups={"disk": setup})


TRUSTSTORE = "s3://acme-pki/joblane/authorities.pem"
CERTIFICATE = "arn:aws:acm:eu-west-1:123456789012:certificate/11111111-2222-3333-4444-555555555555"


@pytest.fixture(scope="session")
def two_tenants(tmp_path_factory: pytest.TempPathFactory) -> Deployment:
    """A machine of each role in one tenant; none in the other, which has a fleet of its own.

    Behind mutual TLS, and without alarms.
    """
    config = Config.model_validate(
        {
            "tenants": {
                "team-2": Tenant(machines={role: role for role in ROLES}),
                "acme": Tenant(machines={}),
            },
            "platform": Platform(machines=("ops",)),
            "queues": {
                "default": {},
                "acme": {"tenants": ["acme"]},
                "acme-night": {"tenants": ["acme"]},
            },
            "fleets": {"main": {"queues": ["default"]}, "acme": {"queues": ["acme", "acme-night"]}},
            "domain": Domain(
                name="jobs.acme.example",
                certificate_arn=CERTIFICATE,
                truststore=TRUSTSTORE,
                truststore_version="3",
            ),
            "observability": Observability(level="off"),
        }
    )
    return synthesize(config, tmp_path_factory.mktemp("two_tenants"), [AwsSolutionsChecks()])


@pytest.fixture(scope="session")
def small(tmp_path_factory: pytest.TempPathFactory) -> Deployment:
    """The smallest deployment: one tenant without machines, one queue, no fleet."""
    least = {"tenants": {"main": {"machines": {}}}, "queues": {"default": {}}}
    config = Config.model_validate(least)
    return synthesize(config, tmp_path_factory.mktemp("small"), [AwsSolutionsChecks()])
