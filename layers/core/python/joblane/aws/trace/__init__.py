"""Adapters for the trace queue and its source."""
