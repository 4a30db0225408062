"""Adapters for queues: lanes, settings and counters."""
