"""Every role on routes with real tokens: what the tables say is what the API does.

All of it follows from the table of routes, so that a new route cannot be forgotten here.
"""

import hashlib
import json
import re
import secrets
import time
from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import httpx
import pytest
from ulid import ULID

from joblane.contract.access import ALL_ROLES, API_AUDIENCE, LOGIN_CALLBACKS, AnyRole
from joblane.contract.route import Route
from joblane.contract.routes import ROUTES
from scripts.local.cloud import Cloud
from scripts.local.people import Person, add_people, add_person
from scripts.smokes.access import ask, list_allowed
from tests.e2e.conftest import Http
from tests.support.browser import log_in
from tests.support.depth import DEEP

REPRESENTATIVES = list({route.scopes: route for route in ROUTES}.values())
"""A route of each set of scopes, by which alone routes differ at the door:
tests/infra/test_api.py has the scopes of all."""

ASKED = ROUTES if DEEP else REPRESENTATIVES
GUARDED = [route for route in ASKED if route.scopes]


def person_token(cloud: Cloud, person: Person) -> str:
    """Log in by the authorization-code flow with PKCE."""
    login = httpx.get(f"{cloud.url}/v1/login").json()
    issuer = httpx.get(login["openid_configuration"]).json()
    verifier = secrets.token_urlsafe(48)
    challenge = urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).rstrip(b"=")
    asked = {
        "response_type": "code",
        "client_id": login["client_id"],
        "redirect_uri": LOGIN_CALLBACKS[0],
        "scope": " ".join(login["scopes"]),
        "state": "s",
        "code_challenge": challenge.decode(),
        "code_challenge_method": "S256",
    }
    url = f"{issuer['authorization_endpoint']}?{urlencode(asked)}"
    back = parse_qs(urlsplit(log_in(url, person.name, person.password)).query)
    form = {
        "grant_type": "authorization_code",
        "client_id": login["client_id"],
        "redirect_uri": LOGIN_CALLBACKS[0],
        "code": back["code"][0],
    }
    unproven = httpx.post(issuer["token_endpoint"], data={**form, "code_verifier": "0" * 43})
    assert 400 == unproven.status_code
    back = parse_qs(urlsplit(log_in(url, person.name, person.password)).query)
    form |= {"code": back["code"][0], "code_verifier": verifier}
    answer = httpx.post(issuer["token_endpoint"], data=form)
    assert 200 == answer.status_code, answer.text
    return str(answer.json()["access_token"])


@pytest.fixture(name="people", scope="session")
def _people(cloud: Cloud) -> dict[AnyRole, str]:
    """A token of a person in each role."""
    return {person.role: person_token(cloud, person) for person in add_people(cloud)}


def with_token(cloud: Cloud, token: str) -> dict[str, int]:
    """What each of these routes answers to the bearer of a token."""
    http = Http(cloud.url, token)
    found = {route.key: ask(http, route).status_code for route in ASKED}
    http.close()
    return found


@pytest.mark.parametrize("role", ALL_ROLES)
def test_a_role_opens_its_routes_and_no_others(
    cloud: Cloud, people: dict[AnyRole, str], role: AnyRole
):
    """Of a person."""
    found = with_token(cloud, people[role])
    may = list_allowed(role) & found.keys()
    assert {key for key, status in found.items() if status not in (401, 403)} == may
    assert {status for key, status in found.items() if key not in may} <= {403}
    assert all(status < 500 for status in found.values()), found


def parts(token: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """The header and the claims of a token."""
    head, body, _ = token.split(".")
    header, claims = (json.loads(urlsafe_b64decode(part + "==")) for part in (head, body))
    return header, claims


def without_times(token: str) -> list[dict[str, Any]]:
    """The header and the claims of a token, but for what each token has of its own."""
    own = {"iat", "exp", "jti", "auth_time", "origin_jti"}
    return [{name: part[name] for name in part.keys() - own} for part in parts(token)]


@pytest.fixture(name="bad_tokens", scope="session")
def _bad_tokens(cloud: Cloud) -> dict[str, str]:
    """Tokens that look right."""
    good = cloud.token()
    head, body, signature = good.split(".")
    cognito: Any = cloud.cognito()
    pool = cloud.outputs["UserPoolId"]

    # The same client, whose tokens live for two seconds, while it gets one.
    client, _ = cloud.credentials()
    settings = cognito.describe_user_pool_client(UserPoolId=pool, ClientId=client)
    kept = {
        name: value
        for name, value in settings["UserPoolClient"].items()
        if value and name not in ("ClientSecret", "CreationDate", "LastModifiedDate")
    }
    brief = {"AccessTokenValidity": 2, "TokenValidityUnits": {"AccessToken": "seconds"}}
    cognito.update_user_pool_client(**{**kept, **brief})
    expiring = cloud.token()
    cognito.update_user_pool_client(**kept)
    # It differs from one that gets in by its times only; on a busy host calls take longer than it
    # lives, so it is not used before its end.
    http = Http(cloud.url, good)
    assert 200 == http("GET", "/v1/jobs").status_code
    http.close()
    assert without_times(good) == without_times(expiring)

    # Another pool of the same account, with the same scopes.
    other = cognito.create_user_pool(PoolName="other")["UserPool"]["Id"]
    scopes = [{"ScopeName": "jobs.read", "ScopeDescription": "."}]
    cognito.create_resource_server(
        UserPoolId=other, Identifier=API_AUDIENCE, Name="same", Scopes=scopes
    )
    stranger = cognito.create_user_pool_client(
        UserPoolId=other,
        ClientName="stranger",
        GenerateSecret=True,
        AllowedOAuthFlows=["client_credentials"],
        AllowedOAuthScopes=[f"{API_AUDIENCE}/jobs.read"],
        AllowedOAuthFlowsUserPoolClient=True,
    )["UserPoolClient"]
    foreign = httpx.post(
        f"{cloud.endpoint}/oauth2/token",
        auth=(stranger["ClientId"], stranger["ClientSecret"]),
        data={"grant_type": "client_credentials"},
    ).json()["access_token"]

    while (left_s := parts(expiring)[1]["exp"] - time.time()) > 0:
        time.sleep(left_s)
    flipped = body[:-2] + ("A" if body[-2] != "A" else "B") + body[-1]
    none = urlsafe_b64encode(b'{"alg":"none","typ":"JWT"}').rstrip(b"=").decode()
    return {
        "a changed claim": f"{head}.{flipped}.{signature}",
        "another signature": f"{head}.{body}.{signature[::-1]}",
        "no signature": f"{none}.{body}.",
        "expired": expiring,
        "another pool's": foreign,
        "no token at all": "Joblane",
    }


@pytest.mark.parametrize(
    "flaw",
    [
        "a changed claim",
        "another signature",
        "no signature",
        "expired",
        "another pool's",
        "no token at all",
    ],
)
def test_nobody_gets_in_with_a_token_that_is_not_good(
    cloud: Cloud, bad_tokens: dict[str, str], flaw: str
):
    found = with_token(cloud, bad_tokens[flaw])
    assert {401} == {found[route.key] for route in GUARDED}, found


def test_a_person_without_a_role_is_told_so(cloud: Cloud):
    person = add_person(cloud, "newcomer", "reader")
    cognito, pool = cloud.cognito(), cloud.outputs["UserPoolId"]
    cognito.admin_remove_user_from_group(
        UserPoolId=pool, Username="newcomer", GroupName="demo:reader"
    )
    http = Http(cloud.url, person_token(cloud, person))
    answer = http("GET", "/v1/jobs")
    http.close()
    assert 403 == answer.status_code
    assert "no role in any tenant" in answer.json()["detail"]


@pytest.mark.parametrize(
    "route", [route for route in ROUTES if "{job_id}" in route.path], ids=lambda route: route.key
)
def test_another_tenants_job_is_as_absent_as_one_that_never_was(
    http: Http, as_other: Http, route: Route
):
    job_id = http("POST", "/v1/jobs", json={"command": ["true"]}).json()["id"]
    absent_id = str(ULID())  # of its own: what is asked of an id stands in the asker's audit trail
    answers = [ask(as_other, route, job) for job in (job_id, absent_id)]
    assert [404, 404] == [answer.status_code for answer in answers]
    foreign, absent = ({**a.json(), "instance": "the request's own"} for a in answers)
    assert absent == foreign
    assert [set(a.headers) for a in answers[:1]] == [set(a.headers) for a in answers[1:]]
    assert 200 == http("GET", f"/v1/jobs/{job_id}").status_code


def test_every_kind_of_parameter_is_known_to_belong_to_a_tenant_or_to_none():
    """A route with an id of a new kind of thing that tenants own needs a test like the above."""
    owned = {
        "job_id": "the test above",
        "condition": "tests/unit/condition/test_routes.py",
        "group": "tests/unit/group/test_routes.py",
        "key": "tests/unit/key/test_routes.py",
        "path": "the test above: it is below a job_id",
        "schedule": "tests/unit/schedule/test_routes.py",
        "scope": "tests/unit/key/test_routes.py",
        "type": "tests/unit/typed/test_api.py",
    }
    shared = {"queue", "agent"}
    kinds = {name for route in ROUTES for name in re.findall(r"\{([a-z_]+)\}", route.template)}
    assert {*owned, *shared} == kinds


def test_timelines_name_the_person_and_the_machine(
    cloud: Cloud, http: Http, people: dict[AnyRole, str]
):
    person = Http(cloud.url, people["developer"])
    reasons = []
    for caller in (person, http):
        later = {"command": ["true"], "run_at": "2099-01-01T00:00:00Z"}
        job_id = caller("POST", "/v1/jobs", json=later).json()["id"]
        assert 202 == caller("POST", f"/v1/jobs/{job_id}/cancel").status_code
        reasons.append(caller("GET", f"/v1/jobs/{job_id}").json()["reason"])
    person.close()
    assert "cancelled by developer at" in reasons[0]
    assert "cancelled by machine admin at" in reasons[1]
