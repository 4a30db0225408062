"""The command `schedules`."""
