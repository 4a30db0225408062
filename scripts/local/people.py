"""Users of the local user pool, one for each role."""

import secrets
from dataclasses import dataclass, field

from joblane.contract.access import ROLES, Role, group_name
from scripts.local.cloud import TENANT, Cloud


@dataclass(frozen=True)
class Person:
    """A user who may log in."""

    name: str
    password: str = field(repr=False)
    tenant: str
    role: Role


def add_person(cloud: Cloud, name: str, role: Role, tenant: str = TENANT) -> Person:
    """Create a user with a role, as an administrator would."""
    # One character of each kind that the password policy requires, then random ones.
    password = f"aA1-{secrets.token_urlsafe()}"
    cognito, pool = cloud.cognito(), cloud.outputs["UserPoolId"]
    cognito.admin_create_user(
        UserPoolId=pool, Username=name, TemporaryPassword=password, MessageAction="SUPPRESS"
    )
    cognito.admin_set_user_password(
        UserPoolId=pool, Username=name, Password=password, Permanent=True
    )
    cognito.admin_add_user_to_group(
        UserPoolId=pool, Username=name, GroupName=group_name(tenant, role)
    )
    return Person(name, password, tenant, role)


def add_people(cloud: Cloud) -> list[Person]:
    """Create one user for each role, named after it."""
    return [add_person(cloud, role, role) for role in ROLES]
