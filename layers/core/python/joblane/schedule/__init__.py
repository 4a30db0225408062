"""Schedules: when they are due, what is started then, and what became of each due time."""
