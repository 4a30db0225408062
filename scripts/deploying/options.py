"""Those options of the CDK's command line that say which deployment is meant, and where."""

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

REGION_VARIABLES = ("AWS_REGION", "AMAZON_REGION", "AWS_DEFAULT_REGION", "AMAZON_DEFAULT_REGION")
"""In the order in which the CDK reads them; boto3 reads the third only."""

CONFIG = "config="


@dataclass(frozen=True)
class Options:
    """What a command of the CDK was given."""

    config: Path
    """joblane.toml, or what `-c config=PATH` names."""
    profile: str | None
    approval: str | None
    """Of `--require-approval`."""
    asks: bool
    """Whether it only asks for help or for the version."""


def parse(words: Sequence[str], root: Path) -> Options:
    """Read the options behind a command's name; what else the CDK takes is left to it."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("-c", "--context", action="append", default=[])
    parser.add_argument("--profile")
    parser.add_argument("--require-approval")
    parser.add_argument("-h", "--help", action="store_true")
    parser.add_argument("--version", action="store_true")
    given, _ = parser.parse_known_args(list(words))
    named = [each.removeprefix(CONFIG) for each in given.context if each.startswith(CONFIG)]
    return Options(
        # cdk.json names the app by a path relative to the checkout, where it runs.
        config=root / (named[-1] if named else "joblane.toml"),
        profile=given.profile,
        approval=given.require_approval,
        asks=given.help or given.version,
    )


def region_of(variables: Mapping[str, str]) -> str | None:
    """Return the Region that the environment names, as the CDK reads it; a profile may name one."""
    named = (variables.get(name) for name in REGION_VARIABLES)
    return next((region for region in named if region), None)
