"""Adapters for schedules: their rows, and the messages that say that one is due."""
