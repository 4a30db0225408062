"""The sandbox: an untrusted command in namespaces and cgroup v2.

with Launcher(isolation="full", slots=8) as launcher:
    sandbox = launcher.start(Spec(("make",), {}, Limits(memory_mb=512)), stdout=w, stderr=w)
    ending = sandbox.wait()
"""
