"""The instance_watch function."""
