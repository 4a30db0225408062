"""Who bears a token: every claim that a caller can influence, and what it is worth."""

import json
import time
from base64 import urlsafe_b64encode
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from functions.admin import handler as admin
from joblane.contract.access import ROLES, SCOPES, Role
from joblane.contract.principal import (
    IssuerAccess,
    Machine,
    NotAdmitted,
    PoolAccess,
    Principal,
    with_lists,
)
from tests.support.aws import FUNCTION_ENVIRONMENT, Cloud
from tests.support.requests import ALL, Api

POOL = PoolAccess(
    tenants=frozenset({"acme", "other"}),
    people="people",
    machines={"m-1": Machine("acme", "developer", "ci")},
)
HOLDERS = {
    "arn:aws:sts::111122223333:assumed-role/ci": Machine("acme", "developer", "ci"),
    "arn:aws-us-gov:sts::111122223333:assumed-role/gov": Machine("acme", "admin", "gov"),
}
BY_ROLE = IssuerAccess(tenants=frozenset({"acme"}), tenant_claim="team", role_claim="role")
BY_SCOPE = IssuerAccess(tenants=frozenset({"acme"}), tenant_claim="team")


def person(groups: str, **claims: str) -> Principal:
    """A person of Cognito, with the claims as API Gateway hands them over."""
    told = {"client_id": "people", "sub": "u-1", "username": "ada", "scope": ALL}
    return POOL.principal({**told, "cognito:groups": groups, **claims})


def test_a_machine_is_what_joblane_toml_says_and_may_what_its_role_may():
    who = POOL.principal({"client_id": "m-1", "sub": "m-1", "scope": ALL})
    assert Principal("machine", "m-1", "ci", "acme", "developer", ROLES["developer"]) == who
    assert "machine ci" == str(who)


def test_a_machine_that_asked_for_less_has_less():
    claims = {"client_id": "m-1", "scope": "joblane/jobs.read joblane/admin.read other/jobs.submit"}
    assert frozenset({"jobs.read"}) == POOL.principal(claims).scopes


@pytest.mark.parametrize("role", ROLES)
def test_a_person_may_what_the_role_may_although_the_token_carries_every_scope(role: Role):
    who = person(f"[acme:{role}]")
    assert Principal("person", "u-1", "ada", "acme", role, ROLES[role]) == who
    assert "ada" == str(who)


def test_of_several_roles_the_highest_counts_and_foreign_groups_do_not():
    who = person("[acme:reader staff acme:operator acme:owner gone:admin :admin acme]")
    assert ("acme", "operator") == (who.tenant, who.role)


def test_a_token_that_was_not_made_for_this_api_gives_a_person_nothing():
    # What InitiateAuth gives, past the login page; and an id token, which has no scope.
    for scope in ("aws.cognito.signin.user.admin", ""):
        assert frozenset() == person("[acme:admin]", scope=scope).scopes


@pytest.mark.parametrize(
    ("groups", "why"),
    [
        ("", "no role"),
        ("[]", "no role"),
        ("[acme:]", "no role"),
        ("[acme:ADMIN]", "no role"),
        ("[nowhere:admin]", "no role"),
        ("[acme:reader other:reader]", "several tenants"),
    ],
)
def test_a_person_without_one_tenant_is_turned_away(groups: str, why: str):
    with pytest.raises(NotAdmitted, match=why):
        person(groups)


@pytest.mark.parametrize("claims", [{}, {"client_id": "m-2"}, {"aud": "m-1"}, {"sub": "m-1"}])
def test_a_client_of_no_tenant_is_turned_away(claims: Mapping[str, Any]):
    with pytest.raises(NotAdmitted, match="no tenant"):
        POOL.principal({**claims, "scope": ALL, "cognito:groups": "[acme:admin]"})


def test_a_machine_cannot_be_made_a_person_by_groups():
    who = POOL.principal({"client_id": "m-1", "scope": ALL, "cognito:groups": "[other:admin]"})
    assert ("acme", "developer", "machine") == (who.tenant, who.role, who.kind)


def test_another_issuers_role_decides_where_it_gives_one():
    claims = {"sub": "u-1", "azp": "cli", "team": "acme", "preferred_username": "ada"}
    who = BY_ROLE.principal({**claims, "role": ["operator", "reader"], "scope": "openid"})
    assert Principal("person", "u-1", "ada", "acme", "operator", ROLES["operator"]) == who
    with pytest.raises(NotAdmitted, match="no role"):
        BY_ROLE.principal({**claims, "role": "boss", "scope": "jobs.read admin.mutate"})
    with pytest.raises(NotAdmitted, match="no role"):
        BY_ROLE.principal(claims)


@pytest.mark.parametrize("name", ["scope", "scp"])
def test_another_issuers_scopes_decide_where_it_gives_no_role(name: str):
    who = BY_SCOPE.principal({"team": "acme", "sub": "svc", "client_id": "svc", name: "jobs.read"})
    assert Principal("machine", "svc", "svc", "acme", None, frozenset({"jobs.read"})) == who


@pytest.mark.parametrize("team", ["", "nowhere", "[acme]", "acme other", "ACME"])
def test_another_issuers_token_of_no_tenant_is_turned_away(team: str):
    for access in (BY_ROLE, BY_SCOPE):
        with pytest.raises(NotAdmitted, match="no tenant"):
            access.principal({"team": team, "role": "admin", "scope": " ".join(SCOPES)})


@given(st.dictionaries(st.sampled_from(["cognito:groups", "scope", "username"]), st.text()))
def test_no_claim_makes_more_of_a_machine_than_its_role(claims: dict[str, str]):
    who = POOL.principal({"client_id": "m-1", **claims})
    assert ("acme", "machine") == (who.tenant, who.kind)
    assert who.scopes <= ROLES["developer"]


def bearer(claims: Mapping[str, object]) -> str:
    """The header with a token; its signature is API Gateway's matter."""
    body = urlsafe_b64encode(json.dumps(claims).encode()).rstrip(b"=").decode()
    return f"Bearer e30.{body}.sig"


NOT_OPERATOR = [
    "not operator",
    "operator reader",
    "[operator]",
    "[operator reader]",
    "operator,admin",
    ["not operator"],
    ["reader operator"],
    ["[operator]", "staff"],
    ["not", "an operator"],
    [["operator"]],
    {"operator": True},
]


@pytest.mark.parametrize("value", NOT_OPERATOR)
def test_a_claim_that_holds_a_roles_name_among_other_words_gives_no_role(aws: Cloud, value: object):
    """The claim as API Gateway hands it over: a list as its entries in brackets."""
    text = value if isinstance(value, str) else json.dumps(value)
    if isinstance(value, list):
        text = f"[{' '.join(entry if isinstance(entry, str) else '?' for entry in value)}]"
    claims = {"sub": "u-1", "team": "acme", "role": text}
    settings = admin.Settings.model_validate(
        {**FUNCTION_ENVIRONMENT, "JOBLANE_ACCESS": BY_ROLE.model_dump_json()}
    )
    api = Api(admin.build(settings, aws.clients, time.time), claims=claims)
    header = {"authorization": bearer({**claims, "role": value})}
    assert 403 == api("GET", "/v1/dlq", headers=header)[0]


@pytest.mark.parametrize("values", [["operator"], ["staff", "operator", "all of them"]])
def test_a_list_with_a_roles_name_among_other_values_gives_the_role(values: list[str]):
    claims = {"sub": "u-1", "team": "acme", "role": f"[{' '.join(values)}]"}
    told = with_lists(claims, bearer({**claims, "role": values}))
    assert "operator" == BY_ROLE.principal(told).role
    assert claims == with_lists(claims, bearer({**claims, "role": ["admin"]}))


@pytest.mark.parametrize(
    "groups", [["not acme:operator"], ["x acme:operator y"], ["[acme:operator]"]]
)
def test_a_group_that_holds_the_name_of_another_gives_nothing(groups: list[str]):
    claims = {"client_id": "people", "scope": ALL, "cognito:groups": f"[{' '.join(groups)}]"}
    with pytest.raises(NotAdmitted, match="no role"):
        POOL.principal(with_lists(claims, bearer({**claims, "cognito:groups": groups})))
    for text in ("not acme:operator", "acme:operator acme:admin"):  # a claim that is no list
        with pytest.raises(NotAdmitted, match="no role"):
            POOL.principal({**claims, "cognito:groups": text})


@pytest.mark.parametrize(
    "header", ["", "Bearer", "Bearer a.b.c", "Bearer x.W10.y", "Bearer a.e30.b, Bearer a.e30.b"]
)
def test_a_header_without_a_token_restores_no_list(header: str):
    claims = {"team": "acme", "role": "[operator]"}
    assert claims == with_lists(claims, header)


@pytest.mark.parametrize("kind", ["pool", "issuer"])
def test_who_signed_with_an_iam_role_is_what_joblane_toml_says(kind: str):
    access = (POOL if kind == "pool" else BY_ROLE).model_copy(update={"iam": HOLDERS})
    who = access.holder(signer("arn:aws:sts::111122223333:assumed-role/ci/build-7"))
    developer = ROLES["developer"]
    assert Principal("machine", "AROA1", "ci/build-7", "acme", "developer", developer) == who
    assert "machine ci/build-7" == str(who)


@pytest.mark.parametrize(
    "arn",
    [
        "arn:aws:sts::111122223333:assumed-role/ci2/build-7",
        "arn:aws:sts::111122223333:assumed-role/CI/build-7",
        "arn:aws:sts::444455556666:assumed-role/ci/build-7",  # a role of that name elsewhere
        "arn:aws:sts::111122223333:assumed-role/gov/build-7",  # and in another partition
        "arn:aws:sts::111122223333:assumed-role/other/ci/x",
        "arn:aws:sts::111122223333:assumed-role/ci",
        "arn:aws:sts::111122223333:federated-user/ci",
        "arn:aws:iam::111122223333:user/ci",
        "arn:aws:iam::111122223333:user/assumed-role/ci/x",
        "arn:aws:iam::111122223333:root",
        "",
        None,
    ],
)
def test_other_signers_belong_to_no_tenant(arn: str | None):
    access = POOL.model_copy(update={"iam": HOLDERS})
    with pytest.raises(NotAdmitted, match="the IAM role that signed the request"):
        access.holder(signer(arn))


def signer(arn: str | None) -> dict[str, Any]:
    """What API Gateway says of who signed a request."""
    return {"userArn": arn, "userId": "AROA1:build-7", "accountId": "111122223333"}
