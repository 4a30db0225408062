"""Job types: definitions, their versions, and the built-in type."""
