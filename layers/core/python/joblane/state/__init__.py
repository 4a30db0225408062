"""The states of a job and what is told of them: lifecycle, timeline, lease, retention."""
