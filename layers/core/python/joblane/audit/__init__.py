"""Domain: the audit trail's records."""
