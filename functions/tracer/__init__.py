"""The function `tracer`."""
