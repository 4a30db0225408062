"""Polling lanes, messages in flight, claiming jobs."""
