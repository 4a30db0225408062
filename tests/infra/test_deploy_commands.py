"""Commands of the pages on deploying are those of `cdk` and `aws`, and name stacks that are there.

`cdk destroy` is the real one. Without a terminal it says what it would destroy besides the stacks
that are named, and stops before it calls AWS. Commands of `aws` are checked by `aws` itself.
"""

import os
import re
import shlex
import subprocess
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path

from tests.infra.aws_commands import check_by_aws
from tests.infra.synthesis import ROOT, Deployment

DEPLOY = ROOT / "docs/how-to/deploy.md"
WATCH = ROOT / "docs/how-to/watch-a-deployment.md"

NOT_OF_THE_API = {
    "dynamodb wait": "a waiter, which has no skeleton",
    "s3 rb": "a command of several calls, which has no skeleton",
}
"""Commands whose options aws does not show without a call, and why."""

INVALID = "Parameter validation failed:"
OF_THE_ANSWER = re.compile(r"Invalid .* (parameter|structure) \w+[.\[]")
"""What aws says of the example of an answer that it makes up, whose values have no sense. Values of
these commands are none of a structure."""

INCLUDING = "Including depending stacks: "
STOPPED = "we are unable to get a confirmation"


def lines(page: Path) -> Iterator[str]:
    """Commands in blocks of a page, each in one line, and the code in its sentences."""
    text = page.read_text(encoding="utf-8")
    block = re.compile(r"^ *```(\w*)\n(.*?)^ *```", re.MULTILINE | re.DOTALL)
    for content in (content for kind, content in block.findall(text) if kind == "sh"):
        for line in re.sub(r"\\\n\s*", "", content).splitlines():
            yield line.partition("  #")[0].strip()
    yield from (" ".join(code.split()) for code in re.findall(r"`([^`]+)`", block.sub("", text)))


def cdk(page: Path, command: str) -> list[list[str]]:
    """Arguments of a command of `scripts/cdk` on a page, wherever it has any."""
    prefix = f"scripts/cdk {command} "
    return [shlex.split(line.removeprefix(prefix)) for line in lines(page) if prefix in line]


def aws(page: Path) -> list[list[str]]:
    """Commands of `aws` with options on a page, as words."""
    found = (re.search(r"(?:^|\$\()(aws .*?)(?:\)(?:; do)?)?$", line) for line in lines(page))
    commands = [shlex.split(match[1]) for match in found if match is not None]
    return [words[1:] for words in commands if any(word.startswith("--") for word in words)]


def destroy(deployment: Deployment, patterns: list[str], home: Path) -> tuple[set[str], str]:
    """The stacks that `cdk destroy` would destroy, and what it says."""
    assembly = deployment.folder / "cdk.out"
    ran = subprocess.run(
        [ROOT / "node_modules/.bin/cdk", "destroy", "--no-notices", "--app", assembly, *patterns],
        env={
            "PATH": os.environ["PATH"],
            "HOME": str(home),
            "CDK_DISABLE_CLI_TELEMETRY": "true",
            "AWS_EC2_METADATA_DISABLED": "true",
        },
        cwd=home,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    said = re.sub("\x1b\\[[0-9;]*m", "", ran.stdout + ran.stderr)
    assert STOPPED in said, said
    depending = re.search(f"{INCLUDING}(.*)", said)
    named = {
        stack
        for stack in deployment.templates
        if any(fnmatchcase(stack, pattern) for pattern in patterns)
    }
    return named | set(depending[1].split(", ") if depending else ()), said


def test_a_deployment_that_will_come_back_keeps_the_stack_with_the_people(
    production: Deployment, tmp_path: Path
) -> None:
    """A pattern of no stack is said: `<name>-network`, where a deployment has a VPC of its own."""
    every, but_people = cdk(DEPLOY, "destroy")
    assert ["--all"] == every
    named = [pattern.replace("<name>", production.config.name) for pattern in but_people]
    found, said = destroy(production, [*named, "joblane-none"], tmp_path)
    assert set(production.templates) - {"joblane-identity"} == found
    assert "joblane-none does not exist" in said
    assert 1 == said.count("does not exist")


def test_the_stack_of_alarms_is_destroyed_alone(production: Deployment, tmp_path: Path) -> None:
    ((pattern,),) = cdk(WATCH, "destroy")
    named = pattern.replace("<name>", production.config.name)
    assert named in production.templates
    assert {named} == destroy(production, [named], tmp_path)[0]


def test_the_user_pool_is_imported_into_the_stack_that_has_it(production: Deployment) -> None:
    ((stack, option, file),) = cdk(DEPLOY, "import")
    assert ("--resource-mapping", "pool.json") == (option, file)
    assert f">{file}" in DEPLOY.read_text(encoding="utf-8")
    name = stack.replace("<name>", production.config.name).removeprefix("joblane-")
    assert production.resources("AWS::Cognito::UserPool", name)


def test_commands_are_those_of_aws(tmp_path: Path) -> None:
    commands = [words for words in aws(DEPLOY) if " ".join(words[:2]) not in NOT_OF_THE_API]
    for words, ran in zip(commands, check_by_aws(commands, tmp_path), strict=True):
        said = [line for line in ran.err.splitlines() if line and line != INVALID]
        assert [] == [line for line in said if not OF_THE_ANSWER.match(line)], words
        assert ran.code == 0 or said, words


def test_these_commands_are_not_checked() -> None:
    said = {" ".join(words[:2]) for words in aws(DEPLOY)}
    assert set(NOT_OF_THE_API) <= said
    assert 12 <= len(aws(DEPLOY))
