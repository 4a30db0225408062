"""Keyed concurrency: who may run at once under a key, as values and pure decisions."""
