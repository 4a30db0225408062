"""Bundles of job types: a zip file with a package, its dependencies and the runner.

project.py    a package's sources, and what it depends on
wheels.py     dependencies for an architecture, by uv
archive.py    the zip file, which is the same for the same content
build.py      all of them together
upload.py     to the deployment's bucket
push.py       what `joblane types push` does
"""
