"""The identity stack: the user pool, its scopes and groups, and its token endpoint."""

from aws_cdk import Aws
from aws_cdk import aws_cognito as cognito
from constructs import Construct

from infra.policies import acknowledge, removal
from infra.resources import JoblaneStack
from joblane.config import Config
from joblane.contract.access import API_AUDIENCE, MEANING, ROLES, SCOPES, group_name
from joblane.deployment.names import PLATFORM


class IdentityStack(JoblaneStack):
    """A Cognito user pool: invited people with a second factor, and clients for machines."""

    def __init__(self, scope: Construct, config: Config) -> None:
        super().__init__(scope, config, "identity", "who may call the API")
        self.pool = cognito.UserPool(
            self,
            "Users",
            user_pool_name=config.name,
            self_sign_up_enabled=False,
            # Timelines show the user name, which never changes.
            sign_in_aliases=cognito.SignInAliases(username=True, email=True),
            mfa=cognito.Mfa.REQUIRED,
            mfa_second_factor=cognito.MfaSecondFactor(otp=True, sms=False),
            account_recovery=cognito.AccountRecovery.EMAIL_ONLY,
            password_policy=cognito.PasswordPolicy(
                min_length=14,
                require_digits=True,
                require_lowercase=True,
                require_uppercase=True,
                require_symbols=True,
            ),
            # No deletion protection: it would keep the pool of a creation that is rolled back, for
            # example because the prefix of the domain is taken (docs/decisions/1211). Cognito
            # refuses to delete a pool that has a domain.
            removal_policy=removal(config),
        )
        acknowledge(
            self.pool,
            "AwsSolutions-COG8",
            "Threat protection is part of the Plus plan, billed per person; people are invited, "
            "use long passwords and a second factor.",
        )
        scopes = [
            cognito.ResourceServerScope(scope_name=scope, scope_description=MEANING[scope])
            for scope in SCOPES
        ]
        self.pool.add_resource_server(
            "Scopes",
            identifier=API_AUDIENCE,
            user_pool_resource_server_name="Joblane API",
            scopes=scopes,
        )
        for tenant in config.tenants:
            for role in ROLES:
                cognito.UserPoolGroup(
                    self,
                    f"Group-{tenant}-{role}",
                    user_pool=self.pool,
                    group_name=group_name(tenant, role),
                    description=f"People with the role {role} in the tenant {tenant}",
                )
        cognito.UserPoolGroup(
            self,
            f"Group-{PLATFORM}",
            user_pool=self.pool,
            group_name=PLATFORM,
            description="People with the role platform, which belongs to no tenant",
        )
        domain = self.pool.add_domain(
            "Domain",
            # Domain names are unique in a region over all accounts, hence the account id.
            cognito_domain=cognito.CognitoDomainOptions(
                domain_prefix=f"{config.name}-{Aws.ACCOUNT_ID}"
            ),
        )
        self.login_url = domain.base_url()
        """Origin of the login page and of the token endpoint."""
        self.token_url = f"{self.login_url}/oauth2/token"
        """The token endpoint, for client credentials."""
