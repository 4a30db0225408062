"""Job types, and the admission of their jobs."""
