from builds import rebuild
from joblane.testing import End, FakeDeployment


def test_a_build_that_runs_out_of_memory_is_dead_after_its_attempts() -> None:
    deployment = FakeDeployment(commands=lambda _job: End(oom_killed=True))
    client = deployment.client()

    job = rebuild(client, "main").wait()

    assert job.state == "dead"
    assert [dead.id for dead in client.dead_letters().entries] == [job.id]


def test_the_test_ends_a_command(deployment: FakeDeployment) -> None:
    job = rebuild(deployment.client(), "main")
    deployment.run()
    assert [running.command for running in deployment.running] == [("make", "main")]

    deployment.end(job, 3)

    assert job.refresh().state == "retry"


def test_a_running_build_is_cancelled(deployment: FakeDeployment) -> None:
    job = rebuild(deployment.client(), "main")
    deployment.run()

    job.cancel()

    assert job.wait().state == "cancelled"


def test_one_build_of_a_branch_runs_at_a_time(deployment: FakeDeployment) -> None:
    client = deployment.client()
    first, second = (
        client.submit(["make"], concurrency={"key": ["main"], "max_queued": 1}) for _ in range(2)
    )
    deployment.run()
    assert [first.refresh().state, second.refresh().state] == ["active", "waiting"]

    deployment.end(first)

    assert second.refresh().state == "active"
