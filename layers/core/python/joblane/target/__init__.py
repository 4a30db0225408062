"""Targets: labels, groups of agents, and facts of an agent."""
