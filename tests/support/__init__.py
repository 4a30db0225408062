"""What tests share: an AWS in the process, meters, events."""
