"""The summary of a deployment, and the limits of its tenants."""
