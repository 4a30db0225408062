"""The script with which an instance installs its agent: a template, filled in by the stack."""

import re
from collections.abc import Mapping
from pathlib import Path

from infra.assets import AGENT_PYTHON
from infra.errors import AssetError

HOME = "/opt/joblane"

_TEMPLATES = Path(__file__).parent / "agent"
_PLACE = re.compile(r"@([A-Z_]+)@")


def install_script(
    *, deployment: str, threads: int, release: str, bundle_url: str, region: str
) -> list[str]:
    """Return the lines of `agent/install.sh` for one fleet.

    `release` names the bundle's content: the same release is not installed twice.
    `bundle_url` and `region` may hold CDK tokens.
    """
    values = {
        "BUNDLE_URL": bundle_url,
        "DEPLOYMENT": deployment,
        "HOME": HOME,
        "PYTHON": AGENT_PYTHON,
        "REGION": region,
        "RELEASE": release,
        "THREADS": str(threads),
    }
    unit = fill((_TEMPLATES / "joblane-agent.service").read_text(encoding="utf-8"), values)
    script = (_TEMPLATES / "install.sh").read_text(encoding="utf-8")
    return fill(script, {**values, "UNIT": unit.rstrip("\n")}).splitlines()


def fill(template: str, values: Mapping[str, str]) -> str:
    """Replace each `@NAME@`; a name without a value is a mistake of ours, so it raises."""

    def value(place: re.Match[str]) -> str:
        try:
            return values[place[1]]
        except KeyError:
            raise AssetError([f"infra/agent: {place[0]} has no value"]) from None

    return _PLACE.sub(value, template)
