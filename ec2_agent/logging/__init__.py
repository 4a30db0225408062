"""Structured log: the format and every event of the agent."""
