"""AWS at the edge: one file a table or a queue, each a small class that callers are handed."""
