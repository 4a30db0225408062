"""The CDK app: creates the stacks of joblane.toml.

`cdk deploy --all` deploys them; `-c config=PATH` names another file. Synthesis needs no AWS
account, and no network once the layer's wheels are in uv's cache.
"""

import os
import sys
from pathlib import Path

from aws_cdk import App

from infra.assets import build_assets
from infra.compose import compose
from infra.config import load_config
from infra.environment import find_environment
from infra.errors import InfraError
from infra.limits import require_deployable
from infra.setup_files import setup_files

ROOT = Path(__file__).resolve().parent


def main() -> int:
    """Synthesize every stack; on a mistake say what to change, a line each, and return 1."""
    app = App()
    named = app.node.try_get_context("config")
    try:
        path = Path(named) if named else ROOT / "joblane.toml"
        config = load_config(path)
        assets = build_assets(ROOT, config, setup_files(path, config))
        compose(app, config, assets, find_environment(os.environ))
        require_deployable(Path(app.synth().directory))
    except InfraError as error:
        for line in error.lines:
            print(line, file=sys.stderr)  # noqa: T201 - the CDK CLI shows our stderr
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
