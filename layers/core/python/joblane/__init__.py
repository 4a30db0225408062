"""Joblane's shared core: the job model, its lifecycle, and the AWS edge behind small classes."""

__version__ = "0.1.0"
"""Of the whole of Joblane; pyproject.toml says the same, and a test compares them."""
