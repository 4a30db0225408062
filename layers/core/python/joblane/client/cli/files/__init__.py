"""Commands and options for files of jobs."""
