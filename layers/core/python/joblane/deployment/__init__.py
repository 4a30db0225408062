"""Domain: names of the deployment's resources, and its description for agents."""
