"""Job types as Python functions: what a program imports to declare them, and what runs them.

errors.py     PermanentError, and what ends a handler early
job_type.py   @job_type, JobType, Key
job.py        Job, which a handler gets
line.py       the line to the agent, descriptor 3
collect.py    finding the types of a package, and the type of an entry
runner.py     the program of a typed job in its sandbox

A bundle has a copy of this package, so it imports the standard library and pydantic only.
"""
