"""Files of jobs: a cache of input files, staging for a start, and collecting output files."""
