"""Submits a job with the clients that two generators have made: scripts/generated-clients runs it.

The API is a function here: what counts is what is sent, and how the answer is read.
"""

import json
from pathlib import Path
from typing import Any

import httpx
import joblane_models
from joblane_client import AuthenticatedClient
from joblane_client.api.jobs import cancel_job, submit_job
from joblane_client.models import Because, Cancelled, Submission, Submitted

DOCUMENT = Path("layers/core/python/joblane/contract/openapi.json")


def main() -> None:
    submitted, cancelled = example("/v1/jobs"), example("/v1/jobs/{job_id}/cancel")
    sent: list[httpx.Request] = []

    def api(request: httpx.Request) -> httpx.Response:
        sent.append(request)
        cancels = request.url.path.endswith("/cancel")
        return httpx.Response(202, json=cancelled if cancels else submitted)

    client = AuthenticatedClient("https://api.example.com", "token")
    client.set_httpx_client(
        httpx.Client(base_url="https://api.example.com", transport=httpx.MockTransport(api))
    )

    # What is left out is not sent: the type's defaults would not apply else.
    made = submit_job.sync(client=client, body=Submission(command=["make", "test"]))
    assert {"command": ["make", "test"]} == json.loads(sent[-1].content)
    assert isinstance(made, Submitted)
    assert (submitted["id"], submitted["state"]) == (made.id, made.state)

    ended = cancel_job.sync(made.id, client=client, body=Because(reason="not needed"))
    assert ("POST", f"/v1/jobs/{made.id}/cancel") == (sent[-1].method, sent[-1].url.path)
    assert {"reason": "not needed"} == json.loads(sent[-1].content)
    assert isinstance(ended, Cancelled)
    assert cancelled["note"] == ended.note

    submission = joblane_models.Submission(command=["make", "test"])
    assert {"command": ["make", "test"]} == submission.model_dump(exclude_none=True)
    assert submitted["id"] == joblane_models.Submitted.model_validate(submitted).id


def example(path: str) -> Any:
    """The document's first example of what a POST is answered."""
    answer = json.loads(DOCUMENT.read_text("utf-8"))["paths"][path]["post"]["responses"]["202"]
    return next(iter(answer["content"]["application/json"]["examples"].values()))["value"]


main()
