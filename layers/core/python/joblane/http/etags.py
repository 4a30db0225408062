"""ETags of jobs."""

from joblane.job.head import Head, version


def etag(head: Head) -> str:
    """The ETag of a job."""
    return f'"{version(head)}"'
