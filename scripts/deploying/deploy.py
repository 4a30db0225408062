"""The preflight of scripts/cdk deploy: says in one line each what would fail after minutes."""

import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import boto3

from infra.config import load_config
from infra.errors import InfraError
from infra.reserved import count_reserved
from scripts.deploying.errors import DeployError
from scripts.deploying.facts import Account
from scripts.deploying.options import parse
from scripts.deploying.preflight import Declared, findings
from scripts.deploying.session import identity, new_session

ROOT = Path(__file__).resolve().parents[2]


def main(words: Sequence[str]) -> int:
    """Check what `words` would deploy, which are those behind `deploy`; 1 when it would fail."""
    given = parse(words, ROOT)
    if given.asks:
        return 0
    try:
        config = load_config(given.config)
        session = new_session(given.profile)
        account, caller = identity(session)
    except InfraError as error:
        for line in error.lines:
            _say(line)
        return 1
    except DeployError as error:
        _say(str(error))
        return 1
    region = str(session.region_name)
    _say(f"{config.name} to the account {account}, {region}, as {caller}")
    path = given.config
    named = str(path.relative_to(ROOT) if path.is_relative_to(ROOT) else path)
    declared = Declared(named, path.read_text(encoding="utf-8"), config)
    facts = Account(partial(_client, session), account, region).facts(config)
    found = findings(declared, facts, count_reserved(config), given.approval)
    for each in found:
        _say(each.text)
    if refused := sum(each.refuses for each in found):
        _say(f"nothing was deployed; {refused} to settle first")
        return 1
    return 0


def _client(session: boto3.Session, service: str) -> Any:
    return session.client(service)  # type: ignore[call-overload]


def _say(line: str) -> None:
    print(f"scripts/cdk deploy: {line}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
