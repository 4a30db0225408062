"""What goes wrong while the local cloud starts, as one line for the person at the terminal."""


class LocalError(Exception):
    """A port in use, a tool that is missing, a process that died: what, and what to do now."""
