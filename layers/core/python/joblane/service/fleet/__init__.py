"""Agents, their instances and their fleets."""
