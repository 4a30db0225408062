"""The command `types`."""
