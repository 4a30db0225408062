"""Targets: which agents a job is for, groups of jobs with one member an agent, and facts."""
