"""The function `notifier`."""
