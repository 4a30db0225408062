"""Users of the local user pool, one for each role and one with the role platform."""

import secrets
from dataclasses import dataclass, field

from joblane.contract.access import ALL_ROLES, AnyRole, group_name
from joblane.deployment.names import PLATFORM
from scripts.local.cloud import TENANT, Cloud


@dataclass(frozen=True)
class Person:
    """A user who may log in."""

    name: str
    password: str = field(repr=False)
    role: AnyRole


def add_person(cloud: Cloud, name: str, role: AnyRole, tenant: str = TENANT) -> Person:
    """Create a user with a role in a tenant, or the role platform, which belongs to none."""
    # One character of each kind that the password policy requires, then random ones.
    password = f"aA1-{secrets.token_urlsafe()}"
    cognito, pool = cloud.cognito(), cloud.outputs["UserPoolId"]
    cognito.admin_create_user(
        UserPoolId=pool, Username=name, TemporaryPassword=password, MessageAction="SUPPRESS"
    )
    cognito.admin_set_user_password(
        UserPoolId=pool, Username=name, Password=password, Permanent=True
    )
    group = PLATFORM if role == PLATFORM else group_name(tenant, role)
    cognito.admin_add_user_to_group(UserPoolId=pool, Username=name, GroupName=group)
    return Person(name, password, role)


def add_people(cloud: Cloud) -> list[Person]:
    """Create one user for each role, named after it."""
    return [add_person(cloud, role, role) for role in ALL_ROLES]
