"""The projector function."""
