"""Reading the output of jobs."""
