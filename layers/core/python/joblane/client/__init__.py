"""The client: the Python SDK and the `joblane` command line."""
