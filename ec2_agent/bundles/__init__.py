"""Bundles of job types on this host: downloaded once by digest, unpacked, removed when unused."""
