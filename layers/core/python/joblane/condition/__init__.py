"""Domain: conditions that block jobs. Names and test policies."""
