"""A deployment in memory, for tests of programs that submit jobs and of handlers.

    from joblane.testing import FakeDeployment

    deployment = FakeDeployment(types=[add])
    client = deployment.client()
    assert client.submit(add, AddParams(a=1, b=2)).wait() == 3

Needs `joblane[testing]`. The client is the real one; API, tables, queues and the rules of jobs are
those of a deployment, in this process: no network, no threads, and time passes when a test says so.
"""

try:
    from joblane.testing.attempts import End
    from joblane.testing.deployment import FakeDeployment, StillRunningError
    from joblane.testing.jobs import Running, Submitted
except ModuleNotFoundError as error:
    if error.name in ("aws_lambda_powertools", "botocore", "cronsim", "jsonschema_rs"):
        raise ModuleNotFoundError(
            f"joblane.testing needs {error.name}: install the wheel with its extra, "
            "joblane-VERSION-py3-none-any.whl[testing]",
            name=error.name,
        ) from None
    raise

__all__ = ["End", "FakeDeployment", "Running", "StillRunningError", "Submitted"]
