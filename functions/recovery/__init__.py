"""What tests conditions and lets their jobs go; called by the recovery state machine."""
