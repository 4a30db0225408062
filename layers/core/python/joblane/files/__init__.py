"""Files of jobs: inputs that are placed in the work directory, and outputs that are collected."""
