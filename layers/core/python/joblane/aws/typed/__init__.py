"""Adapters for job types and their bundles."""
