"""Commands for jobs, and their options."""
