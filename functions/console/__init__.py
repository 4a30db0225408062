"""The console function."""
