"""Domain: why a job waits, runs on or has ended, as ordered reasons with their facts."""
