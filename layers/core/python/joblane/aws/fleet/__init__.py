"""Adapters for agents, fleets and Auto Scaling."""
