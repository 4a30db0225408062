"""When an agent ends its own instance, and its Auto Scaling group."""
