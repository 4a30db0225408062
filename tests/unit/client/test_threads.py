"""16 threads use one `Client`: each gets its own answers, and their token is renewed once."""

import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from threading import Barrier
from typing import Any

import httpx
import pytest

from joblane import Client, JobRef
from joblane.client.credentials import RenewableToken
from joblane.client.signing import AwsSignature
from joblane.client.tokens import StoredToken, TokenFile
from tests.support.client.fake_api import FakeApi, FakeJob, Request, problem

THREADS = 16


@pytest.fixture(autouse=True)
def _eager() -> Iterator[None]:
    """Change threads as often as can be."""
    usual = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(usual)


def together(do: Callable[[int], Any]) -> list[Any]:
    """Call it in all threads at once, with the number of each."""
    start = Barrier(THREADS)

    def run(number: int) -> Any:
        start.wait()
        return do(number)

    with ThreadPoolExecutor(THREADS) as pool:
        return list(pool.map(run, range(THREADS)))


def test_threads_share_a_client(api: FakeApi):
    def script(job: FakeJob) -> None:
        job.say(f"{job.data['name']}\n")
        job.end(labels={"of": job.data["name"]})

    api.on_submit = script
    with Client(api.url, "secret") as client:

        def work(number: int) -> list[JobRef]:
            jobs = []
            for n in range(5):
                name = f"{number}-{n}"
                job = client.submit(["true"], name=name)
                assert f"{name}\n" == "".join(each.text for each in job.logs(follow=True))
                assert ({"of": name}, name) == (job.wait(check=True).labels, job.name)
                jobs.append(job)
            assert {job.id for job in jobs} <= {job.id for job in client.list()}
            return jobs

        made = [job.id for jobs in together(work) for job in jobs]
    assert THREADS * 5 == len(set(made)) == len(api.jobs)


class Login(RenewableToken):
    """Obtains token 1, then token 2."""

    obtained = 0

    def _obtain(self, stored: StoredToken | None) -> StoredToken:
        self.obtained += 1
        token = f"token-{self.obtained}"
        return StoredToken(self._url, "id", token, time.time() + 3600, f"{self._url}/token")


def test_a_token_that_all_threads_use_is_renewed_once(api: FakeApi, tmp_path: Path):
    def check(request: Request) -> Any:
        if request.headers["Authorization"] == "Bearer token-1":
            return problem(401, "Unauthorized")
        return None

    api.add("01J")
    login = Login(api.url, TokenFile({"XDG_CACHE_HOME": str(tmp_path)}, "token"))
    with Client(api.url, login) as client:
        assert "01J" == client.get("01J").id
        assert 1 == login.obtained
        api.more = check
        assert ["01J"] * THREADS == together(lambda _: client.get("01J").id)
    assert 2 == login.obtained


def sign(signer: AwsSignature, _: int) -> httpx.Request:
    """Sign a request of its own, as each call of a client has one."""
    request = httpx.Request("GET", "https://abc.execute-api.eu-west-1.amazonaws.com/v1/jobs")
    return next(signer.sync_auth_flow(request))


def test_threads_share_a_signer(monkeypatch: pytest.MonkeyPatch):
    """Its session of botocore may load the credentials more than once, to the same end."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "a")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "b")
    for _ in range(5):
        signer = AwsSignature("https://abc.execute-api.eu-west-1.amazonaws.com")
        signed = together(partial(sign, signer))
        assert all("Authorization" in each.headers for each in signed)
