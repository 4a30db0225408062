"""One attempt of one job, from the claim to its end."""
