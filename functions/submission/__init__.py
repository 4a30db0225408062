"""The submission function."""
