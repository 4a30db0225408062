"""How many instances a fleet should have, and what was last decided; pure decisions."""
