"""Errors before a template exists, as lines for the terminal."""


class InfraError(Exception):
    """An error in the configuration, or a missing tool.

    `lines` has one sentence for each error: what, where, and what is allowed.
    """

    def __init__(self, lines: list[str]) -> None:
        super().__init__("\n".join(lines))
        self.lines = lines


class ConfigError(InfraError):
    """joblane.toml cannot be read, or is not valid."""


class AssetError(InfraError):
    """The code of the functions or the agents could not be built."""
