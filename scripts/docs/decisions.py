"""The generated part of docs/decisions/README.md: an index of the decisions by room.

The first line of a decision is `# NUMBER: title`, and a line `Room: NAME` names its room.
"""

import re
from collections.abc import Iterator
from pathlib import Path

FOLDER = Path(__file__).parents[2] / "docs" / "decisions"

ROOMS = (
    "joblane",
    "joblane/testing",
    "joblane/compose",
    "joblane/client",
    "joblane/http",
    "joblane/service",
    "joblane/config",
    "joblane/handler",
    "joblane/aws",
    "joblane/contract",
    "joblane/why",
    "joblane/notify",
    "joblane/fleet",
    "joblane/queue",
    "joblane/schedule",
    "joblane/typed",
    "joblane/job",
    "joblane/target",
    "joblane/group",
    "joblane/condition",
    "joblane/key",
    "joblane/files",
    "joblane/audit",
    "joblane/state",
    "ec2_agent",
    "ec2_agent/serving",
    "ec2_agent/messages",
    "ec2_agent/lanes",
    "ec2_agent/attempt",
    "ec2_agent/jobs",
    "ec2_agent/outcomes",
    "ec2_agent/presence",
    "ec2_agent/scale_in",
    "ec2_agent/files",
    "ec2_agent/bundles",
    "ec2_agent/facts",
    "ec2_agent/host",
    "ec2_agent/sandbox",
    "ec2_agent/shim",
    "ec2_agent/state",
    "ec2_agent/logging",
    "ec2_agent/aws_calls",
    "functions",
    "infra",
    "console",
    "tests",
    "tests/infra",
    "tests/kernel",
    "tests/console",
    "tests/e2e",
    "scripts",
)
"""The rooms that a decision may name, in the order of the index."""


def index(folder: Path = FOLDER) -> str:
    """Each room with a line for each of its decisions.

    Raises ValueError for a decision without a title, or whose room is unknown.
    """
    lines: dict[str, list[str]] = {room: [] for room in ROOMS}
    for path in sorted(folder.glob("[0-9]*.md")):
        title, room = _header(path)
        lines[room].append(f"* [{path.name[:4]}]({path.name}) {title}")
    return "\n\n".join(_sections(lines))


def _sections(lines: dict[str, list[str]]) -> Iterator[str]:
    for room, decisions in lines.items():
        if decisions:
            yield f"## {room}"
            yield "\n".join(decisions)


def _header(path: Path) -> tuple[str, str]:
    text = path.read_text(encoding="utf-8")
    title = re.match(rf"# {path.name[:4]}: (\S.*)\n", text)
    if not title:
        raise ValueError(f"{path.name}: the first line must be '# {path.name[:4]}: title'")
    room = re.search(r"^Room: (.+)$", text, flags=re.MULTILINE)
    if not room:
        raise ValueError(f"{path.name}: there is no line 'Room: NAME'")
    if room[1] not in ROOMS:
        raise ValueError(f"{path.name}: unknown room {room[1]!r}; allowed: {', '.join(ROOMS)}")
    return title[1], room[1]
