"""The export of ended jobs: picking them from the stream, and writing them to S3."""
