"""The script with which an instance installs its agent: a template, filled in by the stack."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from infra.assets import AGENT_PYTHON
from infra.errors import AssetError

_TEMPLATES = Path(__file__).parent / "agent"
_PLACE = re.compile(r"@([A-Z_]+)@")


@dataclass(frozen=True)
class Installation:
    """What the script puts where. `bundle_url` and `region` may hold CDK tokens."""

    deployment: str
    fleet: str
    queues: tuple[str, ...]
    """The queues that the agent serves: its role reaches no others."""
    threads: int
    """Jobs that the agent runs at once."""
    allow_host_network: bool
    egress_allow: tuple[str, ...]
    egress_refuse: tuple[str, ...]
    release: str
    """Names the bundle's content: the same release is not installed twice."""
    bundle_url: str
    """`s3://` address of the bundle, a zip with `lib/`."""
    region: str
    home: str = "/opt/joblane"
    unit_file: str = "/etc/systemd/system/joblane-agent.service"

    def script(self) -> list[str]:
        """Return the lines of `agent/install.sh`, filled in."""
        values = {
            "BUNDLE_URL": self.bundle_url,
            "DEPLOYMENT": self.deployment,
            "HOME": self.home,
            "OPTIONS": self._options(),
            "PYTHON": AGENT_PYTHON,
            "REGION": self.region,
            "RELEASE": self.release,
            "UNIT_FILE": self.unit_file,
        }
        unit = fill((_TEMPLATES / "joblane-agent.service").read_text(encoding="utf-8"), values)
        script = (_TEMPLATES / "install.sh").read_text(encoding="utf-8")
        return fill(script, {**values, "UNIT": unit.rstrip("\n")}).splitlines()

    def _options(self) -> str:
        """Return the arguments of `joblane agent`."""
        return " ".join(
            (
                f"--deployment {self.deployment} --fleet {self.fleet}",
                *(f"--queue {queue}" for queue in self.queues),
                f"--threads {self.threads} --isolation full",
                *(["--allow-host-network"] if self.allow_host_network else []),
                *(f"--egress-allow {network}" for network in self.egress_allow),
                *(f"--egress-refuse {network}" for network in self.egress_refuse),
            )
        )


def fill(template: str, values: Mapping[str, str]) -> str:
    """Replace each `@NAME@`; a name without a value is a mistake of ours, so it raises."""

    def value(place: re.Match[str]) -> str:
        try:
            return values[place[1]]
        except KeyError:
            raise AssetError([f"infra/agent: {place[0]} has no value"]) from None

    return _PLACE.sub(value, template)
