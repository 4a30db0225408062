"""Groups of commands with a default command."""

from typing import Any

from typer.core import TyperGroup


class ShowByDefault(TyperGroup):
    """A group that runs `show` when its first argument is not one of its commands."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:  # noqa: ANN401 - vendored click
        """Insert `show` where no command is named."""
        if not args or (args[0] not in self.commands and args[0] not in {"-h", "--help"}):
            args = ["show", *args]
        return super().parse_args(ctx, args)
