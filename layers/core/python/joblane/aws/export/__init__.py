"""Adapters for the export of ended jobs: the stream, the queue and the objects."""
