"""The Lambda functions, one folder each; thin adapters over joblane."""
