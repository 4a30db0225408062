"""Adapters for jobs: the `jobs` table, its stream, and what is stored beside it."""
