"""Domain: the job. Its submission, head, moves, messages, output records and spans."""
