"""Conditions that block jobs: testing them, and releasing the jobs."""
