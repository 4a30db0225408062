"""The error of this package."""

from joblane.client.errors import InputError


class BundleError(InputError):
    """A bundle cannot be built; the text names what and what to do. Nothing was sent."""
