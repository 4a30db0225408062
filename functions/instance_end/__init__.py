"""The instance_end function."""
