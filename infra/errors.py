"""What can go wrong before a template exists, as lines for the person at the terminal."""


class InfraError(Exception):
    """A mistake in the configuration, or a tool that is missing.

    `lines` holds one complete sentence a mistake: what, where, and what would be right.
    """

    def __init__(self, lines: list[str]) -> None:
        super().__init__("\n".join(lines))
        self.lines = lines


class ConfigError(InfraError):
    """joblane.toml cannot be read, or says something that it may not."""


class AssetError(InfraError):
    """Code for the functions or the agents could not be put together."""
