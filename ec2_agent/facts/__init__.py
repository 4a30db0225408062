"""Facts of this agent: its host, its instance, and what configured commands print."""
