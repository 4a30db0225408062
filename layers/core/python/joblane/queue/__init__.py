"""Domain: queues. Settings, thread shares and activity counters."""
