"""Calls to AWS that the agent makes for each job."""
