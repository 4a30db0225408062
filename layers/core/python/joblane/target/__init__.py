"""Targets: which agents a job is for, and facts of agents."""
