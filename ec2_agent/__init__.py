"""The agent on the instances: poll, claim, sandbox, report."""
