"""Disks for the work directories of jobs that ask for `disk_mb`: a size that the kernel enforces.

Each is a detached mount, which a sandbox attaches at /work. Nothing else names it, so it ends with
the last descriptor or sandbox that has it, however the processes end.
"""
