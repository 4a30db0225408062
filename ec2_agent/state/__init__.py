"""The state service: a small process beside the agent, which stores records that outlive it.

service side (imports little, so that the process stays small: decision 1767)
    __main__.py  its command line: opens a backend, binds the socket
    server.py    the sockets; rounds.py: requests in batches for the backend
    worker.py    a thread for rounds, for a backend that calls AWS
    memory.py, local.py, dynamodb.py   the backends, behind backend.py
agent side
    supervisor.py   starts the process, checks its health, starts it again
    client.py    operations with retries, and deferred updates
    pool.py      connections
    settings.py  section [state] of the agent's configuration file
both
    records.py   records, their versions, and which of two writes wins
    protocol.py  frames on the socket

docs/reference/agent-protocol.md describes the protocol and the files on disk.
"""
