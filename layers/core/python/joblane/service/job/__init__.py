"""Submitting, reading, moving and deleting jobs."""
