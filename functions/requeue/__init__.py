"""The requeue function."""
