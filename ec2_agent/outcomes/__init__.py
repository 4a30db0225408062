"""Outcomes of attempts: what is written, the journal, and reporting to AWS."""
