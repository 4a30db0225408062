"""Choosing the agents of targeted jobs, and ending jobs of lost agents."""
