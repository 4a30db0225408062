"""The state service: records that outlive the agent, kept by a small process beside it.

service side (imports little, so that the process stays small)
    __main__.py  its command line: opens a backend, binds the socket
    server.py    one loop for the sockets, one worker for the backend
    memory.py, local.py, dynamodb.py   the backends, behind backend.py
agent side
    keeper.py    starts the process, watches it, starts it again
    client.py    what the agent calls: operations, repeats, the buffer of later updates
    pool.py      connections
    settings.py  section [state] of the agent's configuration file
both
    records.py   what a record is, and which of two writes wins
    protocol.py  frames on the socket

docs/PROTOCOL.md describes the protocol and the files on disk.
"""
