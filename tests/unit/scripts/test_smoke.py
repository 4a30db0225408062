"""The smoke test itself: what runs after a failure or an interruption, and what it tells."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pytest

from infra.config import load_config
from joblane.contract.access import AnyRole
from joblane.contract.route import Route
from joblane.contract.routes import ROUTES
from scripts.smokes import access, account, command
from scripts.smokes.account import AccountSite, format_config, trail
from scripts.smokes.command import price
from scripts.smokes.runner import Failure, Smoke, Step
from scripts.smokes.site import LABEL, Load, Site
from scripts.smokes.steps import REMOVAL, STEPS
from tests.support.pauses import replace_sleep
from tests.unit.scripts.test_costs import RESOURCES

ROOT = Path(__file__).parents[3]


class Nowhere(Site):
    """A site that keeps what was done to it."""

    local = True
    load = Load(1, 1)
    patience_s = 1.0

    def __init__(self, *, local: bool = True) -> None:
        super().__init__()
        self.local = local
        self.done: list[str] = []

    def check(self) -> None:
        """Note it."""
        self.done.append("check")

    def deploy(self) -> None:
        """Note it."""
        self.done.append("deploy")

    def remove(self) -> None:
        """Note it."""
        self.done.append("remove")

    def aws(self, service: str) -> Any:
        """Say that no test needs it."""
        raise NotImplementedError

    def new_token(self, role: AnyRole) -> str:
        """Say that no test needs it."""
        raise NotImplementedError

    def end_instance(self, agent: str) -> None:
        """Say that no test needs it."""
        raise NotImplementedError

    def upgrade(self, agent: str) -> None:
        """Say that no test needs it."""
        raise NotImplementedError

    def refusals(self) -> list[str]:
        """Say that no test needs it."""
        raise NotImplementedError


def fails(_site: Site) -> None:
    raise Failure("job 01J has exit code 1")


def breaks(_site: Site) -> None:
    raise KeyError("threads")


def step(name: str, run: Any = Nowhere.deploy, **fields: Any) -> Step:
    return Step(name, f"{name} works", run, f"look at {name}", **fields)


REMOVE = step("remove", Nowhere.remove)
CHECK = step("preflight", Nowhere.check, first=True, reads=True)


def kinds(smoke: Smoke) -> dict[str, str]:
    return {outcome.step.name: outcome.kind for outcome in smoke.outcomes}


def test_when_every_step_is_right_everything_is_removed():
    site = Nowhere()
    smoke = Smoke(site, (CHECK, step("deploy"), step("jobs")), REMOVE)
    assert smoke.run()
    assert ["check", "deploy", "deploy", "remove"] == site.done
    assert {"ok"} == set(kinds(smoke).values())


@pytest.mark.parametrize("fault", [fails, breaks])
def test_after_a_failure_the_other_steps_run_and_everything_is_removed(fault: Any):
    site = Nowhere()
    smoke = Smoke(site, (CHECK, step("deploy"), step("jobs", fault), step("load")), REMOVE)
    assert not smoke.run()
    assert ["check", "deploy", "deploy", "remove"] == site.done
    wanted = {"preflight": "ok", "deploy": "ok", "jobs": "failed", "load": "ok", "remove": "ok"}
    assert wanted == kinds(smoke)
    assert "next: look at jobs" in smoke.report()
    said = "job 01J has exit code 1" if fault is fails else "KeyError: 'threads'"
    assert said in smoke.report()


def test_after_a_failed_deployment_nothing_runs_and_what_is_there_is_removed():
    site = Nowhere()
    smoke = Smoke(site, (CHECK, step("deploy", fails, first=True), step("jobs")), REMOVE)
    assert not smoke.run()
    assert ["check", "remove"] == site.done
    assert "skipped" == kinds(smoke)["jobs"]
    assert "deploy failed" in smoke.report()


def test_names_that_exist_are_not_removed():
    """The preflight found a deployment of that name, which is not this run's."""
    site = Nowhere()
    taken = step("preflight", fails, first=True, reads=True)
    smoke = Smoke(site, (taken, step("deploy", first=True)), REMOVE)
    assert not smoke.run()
    assert [] == site.done
    assert {"preflight": "failed", "deploy": "skipped"} == kinds(smoke)


def test_a_removal_that_leaves_something_is_a_failure():
    smoke = Smoke(Nowhere(), (step("deploy"),), step("remove", fails))
    assert not smoke.run()
    assert "failed" == kinds(smoke)["remove"]


def test_without_steps_only_the_removal_runs():
    site = Nowhere()
    assert Smoke(site, (), REMOVE).run()
    assert ["remove"] == site.done


def test_what_the_local_aws_has_not_got_is_skipped_by_name_there_only():
    steps = (step("trail", missing="CloudTrail"),)
    here, there = (Smoke(Nowhere(local=local), steps, REMOVE) for local in (True, False))
    assert here.run()
    assert there.run()
    assert {"trail": "skipped"} == kinds(here)
    assert "the local AWS has no CloudTrail" in here.report()
    assert {"trail": "ok", "remove": "ok"} == kinds(there)


INTERRUPTED = """
import sys, time
from scripts.local.command import run
from scripts.smokes.command import report
from scripts.smokes.runner import Smoke
from tests.unit.scripts.test_smoke import CHECK, Nowhere, step

def waits(site):
    print("waiting", flush=True)
    time.sleep(60)

def removes(site):
    print("removing", flush=True)
    time.sleep(1)
    print("removed", flush=True)

smoke = Smoke(Nowhere(), (CHECK, step("deploy", waits), step("jobs")), step("remove", removes))
sys.exit(run("scripts/smoke", lambda: report(smoke)))
"""


def test_ctrl_c_removes_everything_and_so_does_a_second_one():
    with subprocess.Popen(
        [sys.executable, "-c", INTERRUPTED],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert "waiting\n" == process.stdout.readline()
        process.send_signal(signal.SIGINT)
        assert "removing\n" == process.stdout.readline()
        process.send_signal(signal.SIGINT)
        rest = process.stdout.read()
    assert rest.startswith("removed\n")
    assert "deploy" in rest
    assert "interrupted" in rest
    assert 128 + signal.SIGINT == process.returncode


class Answering(Nowhere):
    """A site whose API answers by a function of the role and the route."""

    url = "http://joblane.test"

    def __init__(self, status: Callable[[str | None, Route], int]) -> None:
        super().__init__()
        self._status = status

    @contextmanager
    def http(self, role: AnyRole | None = "developer") -> Iterator[httpx.Client]:
        """Use that API."""
        routes: dict[tuple[str, str], Route] = {}
        for each in ROUTES:

            def note(method: str, path: str, route: Route = each) -> httpx.Response:
                routes[method, path] = route
                return httpx.Response(200)

            access.ask(note, each)

        def answer(request: httpx.Request) -> httpx.Response:
            return httpx.Response(self._status(role, routes[request.method, request.url.path]))

        transport = httpx.MockTransport(answer)
        with httpx.Client(base_url=self.url, transport=transport) as client:
            yield client


def right(role: Any, route: Route) -> int:
    """What a deployment answers."""
    if role is None:
        return 401 if route.scopes else 200
    return 404 if route.key in access.list_allowed(role) else 403


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (lambda _role, _route: 404, "reader: POST /v1/jobs answers 404"),
        (lambda _role, _route: 404, "nobody: GET /v1/jobs answers 404"),
        (lambda role, route: right(role, route) if role != "admin" else 403, "admin: GET /v1/dlq"),
        (lambda role, route: right(role, route) if role != "reader" else 500, "answers 500"),
    ],
)
def test_the_role_table_names_each_route_that_answers_wrongly(
    wrong: Callable[[Any, Route], int], said: str
):
    assert "5 roles and nobody" in access.table(Answering(right))
    with pytest.raises(Failure) as failure:
        access.table(Answering(wrong))
    assert said in str(failure.value)


class Recorded(AccountSite):
    """An account whose CloudTrail has these events."""

    def __init__(self, folder: Path, *events: dict[str, Any]) -> None:
        super().__init__("smoke-012abc", folder)
        rows = [{"EventTime": "now", "CloudTrailEvent": json.dumps(each)} for each in events]
        self._pages = [{"Events": rows[:1]}, {"Events": rows[1:]}]

    def aws(self, service: str) -> Any:
        """Return a client that has the events."""
        assert "cloudtrail" == service
        return SimpleNamespace(
            get_paginator=lambda _name: SimpleNamespace(paginate=lambda **_: self._pages)
        )


def event(role: str, code: str | None) -> dict[str, Any]:
    issuer = {"sessionContext": {"sessionIssuer": {"userName": role}}}
    error = {"errorCode": code} if code else {}
    return {"eventName": "GetParameter", "userIdentity": issuer, **error}


def test_cloudtrails_refusals_of_our_roles_fail_and_those_of_others_do_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    replace_sleep(monkeypatch, account, lambda _seconds: None)
    ours, other = "smoke-012abc-fleet-main-Role1", "somebody"
    for code in ("AccessDenied", "AccessDeniedException", "Client.UnauthorizedOperation"):
        with pytest.raises(Failure, match=f"{ours}: GetParameter: {code}"):
            trail(Recorded(tmp_path, event(other, None), event(ours, code)))
    events = event(other, "AccessDenied"), event(ours, None), event(ours, "ResourceNotFound")
    assert "2 pages" in trail(Recorded(tmp_path, *events, {"eventName": "of a service"}))


def test_the_price_of_a_run_is_said_before_it_is_agreed_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setattr(command, "synthesize_stacks", lambda _config: RESOURCES)
    monkeypatch.setattr("builtins.input", lambda _question: "n")
    site = AccountSite("smoke-012abc", tmp_path)
    assert not command._ask(site, tmp_path)  # main() would deploy
    assert "By list prices it costs about $0." in capsys.readouterr().err


def test_every_step_says_what_it_proves_and_what_to_do_next():
    for each in (*STEPS, REMOVAL):
        assert each.name
        assert each.proves
        assert each.hint
    names = [each.name for each in STEPS]
    assert len(set(names)) == len(names)
    assert ["preflight"] == [each.name for each in STEPS if each.reads]


def test_the_page_lists_the_steps_in_their_order():
    page = (ROOT / "docs/how-to/prove-a-deployment.md").read_text(encoding="utf-8")
    rows = [line for line in page.splitlines() if line.startswith("| ")][1:]
    wanted = [
        f"| {each.name} | {each.proves}{'' if each.missing is None else ' (AWS only)'} |"
        for each in (*STEPS, REMOVAL)
    ]
    assert wanted == rows


def test_the_deployment_of_a_run_is_valid_and_costs_less_than_a_dollar(tmp_path: Path):
    file = tmp_path / "joblane.toml"
    file.write_text(format_config("smoke-012abc"))
    config = load_config(file)
    assert {LABEL: LABEL} == config.fleets["main"].labels
    assert {"reader", "developer", "operator", "admin"} <= {*config.tenants["main"].machines}
    assert 0.05 < price(config, RESOURCES, 3600) < 1.0
