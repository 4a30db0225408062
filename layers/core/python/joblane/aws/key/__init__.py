"""Adapters for the `keys` table."""
