"""Statistics, settings and shares of queues."""
