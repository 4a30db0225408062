"""Adapters for the `conditions` table and for recovery."""
