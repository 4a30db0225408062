"""Build hook: the agent requires the joblane of its own version, whose modules it shares."""

from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface


class Dependencies(MetadataHookInterface):
    """Adds joblane at the version being built to the configured dependencies."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Set the dependencies of the distribution."""
        ours = f"joblane=={metadata['version']}"
        metadata["dependencies"] = [ours, *self.config["dependencies"]]
