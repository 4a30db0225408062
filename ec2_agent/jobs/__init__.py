"""Job directories on disk, and adopting the jobs of an earlier process."""
