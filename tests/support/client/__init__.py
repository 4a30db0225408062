"""What tests of the client share: a fake API, a fake issuer, the command line."""
