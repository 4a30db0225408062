"""Errors of the local cloud, as one line for the terminal."""


class LocalError(Exception):
    """A port in use, a missing tool, a process that ended: what happened, and what to do."""
