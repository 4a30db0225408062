"""Input files and output files of jobs."""
