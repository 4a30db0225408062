"""The agent's lease, its inbox, and the instance's notices."""
