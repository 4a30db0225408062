"""The function `exporter`."""
