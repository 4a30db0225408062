"""The host: clock, memory, capacity, Auto Scaling group."""
