"""Adapters for notifications: queues, topics, the event bus."""
