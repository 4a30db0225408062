"""Adapters for input files and output files."""
