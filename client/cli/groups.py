"""Verbs that have verbs of their own."""

from typing import Any

from typer.core import TyperGroup


class ShowByDefault(TyperGroup):
    """A group that takes anything but one of its own verbs for what `show` is to show."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:  # noqa: ANN401 - vendored click
        """Put `show` where no verb stands."""
        if not args or (args[0] not in self.commands and args[0] not in {"-h", "--help"}):
            args = ["show", *args]
        return super().parse_args(ctx, args)
