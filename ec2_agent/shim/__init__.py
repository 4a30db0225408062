"""The shim: one small process per job, which holds its sandbox and records its output and end.

`shim` is one job's, `serving` the process, which has one job after another, `zygote` forks it, and
`pool` is the agent's side; the agent reads `files` and `log` too. All but `pool` import only the
standard library: every job's shim has it in memory.
"""
