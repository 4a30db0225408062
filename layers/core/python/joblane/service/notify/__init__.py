"""Notifications of jobs: queueing and delivering them."""
