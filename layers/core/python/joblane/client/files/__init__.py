"""Input and output files of jobs: scan, hash, upload, download.

models.py        what goes in and what comes out
scan.py          files and directories here, as inputs of a job
reading.py       reading a file that must not change meanwhile
standard_input.py   text, bytes, a file or a pipe as the standard input of a job
upload.py        files that the deployment does not have yet
download.py      output files into a directory
destination.py   writing below a directory, and nowhere else
storage.py       the transfers to and from S3
threads.py       several transfers at once
calls.py         the calls of both clients
"""
