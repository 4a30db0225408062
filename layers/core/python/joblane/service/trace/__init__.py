"""Spans of jobs: collecting and exporting them."""
