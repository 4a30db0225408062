"""The CDK stacks, one in each file."""
