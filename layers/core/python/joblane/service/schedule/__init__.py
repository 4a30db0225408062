"""Use cases of schedules: what is due, what people do with schedules, what they are shown."""
