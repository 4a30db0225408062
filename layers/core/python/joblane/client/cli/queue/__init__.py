"""The command `queues`."""
