"""The Python SDK and the `joblane` command line."""
