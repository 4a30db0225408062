"""Groups in the commands for jobs."""
