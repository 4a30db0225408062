"""What ends the start of an agent."""


class CannotStart(Exception):
    """The agent cannot start; the text says why and what to do."""
