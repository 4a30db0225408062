"""The CDK stacks, one a file."""
