"""Use cases over the stores they are handed."""
