"""Jobs that share a key: admission, release, and what operators see."""
