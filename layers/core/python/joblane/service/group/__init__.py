"""Groups: expansion, settlement, and what operators do with one."""
