"""Errors of deploying, as one line for the terminal."""


class DeployError(Exception):
    """Credentials, a Region, a permission: what is missing, and what to do."""
