"""The identity stack: the user pool, its scopes, and the place where tokens are fetched.

The machine client of each tenant stands in the API stack: it holds no data, and a tenant that
leaves joblane.toml then takes its client along without an export in the way.
"""

from aws_cdk import Aws, RemovalPolicy, Stack
from aws_cdk import aws_cognito as cognito
from constructs import Construct

from infra.policies import acknowledge, removal
from joblane.config import API_AUDIENCE, SCOPES, Config

_DESCRIPTIONS: dict[str, str] = {
    "jobs.submit": "Submit jobs",
    "jobs.read": "Read jobs and their logs",
    "jobs.cancel": "Cancel jobs",
    "admin.read": "See queues and agents",
    "admin.mutate": "Change queues, replay and dismiss dead jobs",
    "admin.stream": "Follow events of the whole deployment",
}


class IdentityStack(Stack):
    """A Cognito user pool whose only users, so far, are machines."""

    def __init__(self, scope: Construct, construct_id: str, *, config: Config) -> None:
        super().__init__(scope, construct_id, description="Joblane: who may call the API")
        keep = removal(config) is RemovalPolicy.RETAIN
        self.pool = cognito.UserPool(
            self,
            "Users",
            user_pool_name=config.name,
            self_sign_up_enabled=False,
            sign_in_aliases=cognito.SignInAliases(email=True),
            account_recovery=cognito.AccountRecovery.EMAIL_ONLY,
            password_policy=cognito.PasswordPolicy(
                min_length=14,
                require_digits=True,
                require_lowercase=True,
                require_uppercase=True,
                require_symbols=True,
            ),
            deletion_protection=keep,
            removal_policy=removal(config),
        )
        acknowledge(
            self.pool,
            "AwsSolutions-COG2",
            "The pool has no people yet, only machine clients, which have no second factor.",
        )
        acknowledge(
            self.pool,
            "AwsSolutions-COG8",
            "Threat protection watches people signing in (Plus plan, billed per user); "
            "this pool issues client credentials only.",
        )
        scopes = [
            cognito.ResourceServerScope(
                scope_name=scope, scope_description=_DESCRIPTIONS.get(scope, scope)
            )
            for scope in SCOPES
        ]
        self.pool.add_resource_server(
            "Scopes",
            identifier=API_AUDIENCE,
            user_pool_resource_server_name="Joblane API",
            scopes=scopes,
        )
        domain = self.pool.add_domain(
            "Domain",
            # Domains are shared by all accounts of a region, hence the account's number.
            cognito_domain=cognito.CognitoDomainOptions(
                domain_prefix=f"{config.name}-{Aws.ACCOUNT_ID}"
            ),
        )
        self.token_url = f"{domain.base_url()}/oauth2/token"
        """Where a client exchanges its id and secret for a bearer token."""
