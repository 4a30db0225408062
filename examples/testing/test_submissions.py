import pytest

from builds import Sync, rebuild, rebuild_from_env, sync
from joblane import Client
from joblane.testing import End, FakeDeployment


def test_a_rebuild_is_urgent(deployment: FakeDeployment) -> None:
    rebuild(deployment.client(), "main")

    deployment.assert_submitted(["make", "main"], priority="high", labels={"team": "web"})
    deployment.assert_submitted(sync, times=0)


def test_a_customer_is_synced_once(deployment: FakeDeployment) -> None:
    client = deployment.client()
    for _ in range(2):
        client.submit(sync, Sync(origin="acme", tickets=[1]), idempotency_key="acme-monday")

    deployment.assert_submitted(sync, Sync(origin="acme", tickets=[1]))


def test_code_that_makes_its_own_client(monkeypatch: pytest.MonkeyPatch) -> None:
    deployment = FakeDeployment(commands=lambda job: End(output=f"built {job.command[-1]}\n"))
    monkeypatch.setattr(Client, "from_env", deployment.client)

    assert rebuild_from_env("main") == "built main\n"
