"""The shim: one small process a job, which keeps it alive and writes down what it does.

`files` and `log` are read by the agent too; `keeper` is the process, `zygote` forks it, `pool`
is the agent's side. Only the standard library: what is imported here lies in every job's shim.
"""
