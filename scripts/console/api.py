"""The API as the seeds and tests of the console call it."""

from typing import Any

import httpx

from joblane.deployment.names import PLATFORM
from scripts.local.cloud import TENANT, Cloud
from scripts.local.processes import wait_until

READY_S = 60.0
"""Seconds until a job is in its state; an idle machine takes one."""


class Api:
    """The API as a machine of a tenant."""

    def __init__(self, cloud: Cloud, tenant: str = TENANT, machine: str = "admin") -> None:
        token = cloud.token(tenant) if tenant == PLATFORM else cloud.token(tenant, machine=machine)
        self._client = httpx.Client(
            base_url=cloud.url, headers={"Authorization": f"Bearer {token}"}, timeout=30
        )

    def __call__(self, method: str, path: str, **options: Any) -> Any:
        """Send a request. Raises httpx.HTTPStatusError unless it succeeds."""
        answer = self._client.request(method, path, **options)
        answer.raise_for_status()
        return answer.json() if answer.content else None

    def submit(self, *command: str, **fields: object) -> str:
        """Submit a job; returns its id."""
        answer = self("POST", "/v1/jobs", json={"command": list(command), **fields})
        return str(answer["id"])

    def state(self, job_id: str) -> str:
        """Return the state of a job."""
        return str(self("GET", f"/v1/jobs/{job_id}")["state"])

    def close(self) -> None:
        """Close the connections."""
        self._client.close()


def wait_for_state(api: Api, job_id: str, *states: str) -> None:
    """Wait until a job is in one of these states."""
    if not wait_until(lambda: api.state(job_id) in states, READY_S, 0.1):
        job = api("GET", f"/v1/jobs/{job_id}")
        raise RuntimeError(f"{job_id} is {job['state']} ({job['reason']}), not {states}")
