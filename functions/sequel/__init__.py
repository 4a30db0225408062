"""The sequel function."""
