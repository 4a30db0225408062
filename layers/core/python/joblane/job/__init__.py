"""Domain: the job. Its specification, state machine, head, output records and retention."""
