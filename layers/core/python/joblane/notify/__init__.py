"""Notifications about jobs: what is asked for, what is allowed, and how webhooks are signed."""
