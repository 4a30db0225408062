"""The dead-letter function."""
