"""Who bears a token: every claim that a caller can influence, and what it is worth."""

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from joblane.contract.access import ROLES, SCOPES, Role
from joblane.contract.principal import IssuerAccess, Machine, NotAdmitted, PoolAccess, Principal
from tests.support.requests import ALL

POOL = PoolAccess(
    tenants=frozenset({"acme", "other"}),
    people="people",
    machines={"m-1": Machine("acme", "developer", "ci")},
)
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
    who = BY_ROLE.principal({**claims, "role": "[operator reader]", "scope": "openid"})
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
