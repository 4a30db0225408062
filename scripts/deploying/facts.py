"""Reads what the preflight decides by: only calls that change nothing."""

from collections.abc import Callable, Collection, Mapping
from typing import Any, TypeVar

from botocore.exceptions import BotoCoreError, ClientError

from joblane.config import Config
from scripts.deploying import existing
from scripts.deploying.expected import functions, list_expected, stacks
from scripts.deploying.preflight import ON_DEMAND, SPOT, Concurrency, Facts
from scripts.deploying.stranded import Stranded, count_stranded, find_leaving

T = TypeVar("T")

VERSION = "/cdk-bootstrap/hnb659fds/version"
"""Parameter that `cdk bootstrap` writes."""


class Account:
    """An account and Region, by a function that makes the client of a service."""

    def __init__(self, client: Callable[[str], Any], account: str, region: str) -> None:
        self._client = client
        self._account = account
        self._region = region
        self._unread: list[str] = []

    def facts(self, config: Config) -> Facts:
        """Read all of it. What AWS refuses to tell is noted."""
        spot = any(fleet.spot_percent for fleet in config.fleets.values())
        existing_stacks = self._try("stacks (CloudFormation)", self._stacks) or {}
        own = stacks(config)
        statuses = {name: status for name, status in existing_stacks.items() if own.fullmatch(name)}
        owned = frozenset(
            self._try("resources of stacks", lambda: self._list_owned(statuses.keys())) or ()
        )
        return Facts(
            account=self._account,
            region=self._region,
            bootstrap=self._try("the CDK's bootstrap (SSM)", self._bootstrap),
            concurrency=self._try("Lambda's quota", lambda: self._concurrency(config)),
            vcpus=self._try("instance types (EC2)", lambda: self._vcpus(config)),
            quotas=self._quotas(spot=spot) if config.fleets else {},
            login_pool=self._try("the login domain (Cognito)", lambda: self._login_pool(config)),
            pools=tuple(
                self._try(
                    "user pools (Cognito)",
                    lambda: sorted(existing.pools(self._client("cognito-idp"), config.name)),
                )
                or ()
            ),
            stacks=statuses,
            owned=owned,
            taken=self._find_taken(config),
            stranded=self._try(
                "jobs of what is removed (DynamoDB)",
                lambda: self._stranded(config, owned, existing_stacks),
            )
            or Stranded(),
            unread=tuple(self._unread),
        )

    def _try(self, what: str, read: Callable[[], T]) -> T | None:
        try:
            return read()
        except (BotoCoreError, ClientError) as error:
            self._unread.append(f"{what}: {' '.join(str(error).split())}")
            return None

    def _stacks(self) -> dict[str, str]:
        found = existing.pages(self._client("cloudformation"), "describe_stacks", "Stacks")
        return {
            each["StackName"]: each["StackStatus"]
            for each in found
            if each["StackStatus"] != "DELETE_COMPLETE"
        }

    def _list_owned(self, names: Collection[str]) -> set[tuple[str, str]]:
        client = self._client("cloudformation")
        return {
            (each["ResourceType"], _name(each.get("PhysicalResourceId", "")))
            for name in names
            for each in existing.pages(
                client, "list_stack_resources", "StackResourceSummaries", StackName=name
            )
        }

    def _stranded(
        self, config: Config, owned: Collection[tuple[str, str]], existing_stacks: Collection[str]
    ) -> Stranded:
        leaving = find_leaving(config, owned, existing_stacks)
        return count_stranded(self._client, config, leaving)

    def _bootstrap(self) -> int:
        ssm = self._client("ssm")
        try:
            return int(ssm.get_parameter(Name=VERSION)["Parameter"]["Value"])
        except ssm.exceptions.ParameterNotFound:
            return 0

    def _concurrency(self, config: Config) -> Concurrency:
        client = self._client("lambda")
        limits = client.get_account_settings()["AccountLimit"]
        limit, unreserved = (
            limits[each] for each in ("ConcurrentExecutions", "UnreservedConcurrentExecutions")
        )
        own = 0
        if limit != unreserved:
            for name in sorted(functions(config)):
                try:
                    answer = client.get_function_concurrency(FunctionName=f"{config.name}-{name}")
                except client.exceptions.ResourceNotFoundException:
                    continue
                own += answer.get("ReservedConcurrentExecutions", 0)
        return Concurrency(limit, unreserved, own)

    def _vcpus(self, config: Config) -> dict[str, int]:
        types = sorted({kind for fleet in config.fleets.values() for kind in fleet.instance_types})
        if not types:
            return {}
        found = existing.pages(
            self._client("ec2"),
            "describe_instance_types",
            "InstanceTypes",
            Filters=[{"Name": "instance-type", "Values": types}],  # others are no error
        )
        return {each["InstanceType"]: each["VCpuInfo"]["DefaultVCpus"] for each in found}

    def _quotas(self, *, spot: bool) -> dict[str, float]:
        client = self._client("service-quotas")

        def value(code: str) -> float:
            named = {"ServiceCode": "ec2", "QuotaCode": code}
            try:
                answer = client.get_service_quota(**named)
            except client.exceptions.NoSuchResourceException:  # it was never changed
                answer = client.get_aws_default_service_quota(**named)
            return float(answer["Quota"]["Value"])

        found: dict[str, float] = {}
        for code in (ON_DEMAND, SPOT) if spot else (ON_DEMAND,):
            quota = self._try(f"EC2's quota {code}", lambda code=code: value(code))  # type: ignore[misc]
            if quota is not None:
                found[code] = quota
        return found

    def _login_pool(self, config: Config) -> str | None:
        if config.access is not None:
            return None
        client = self._client("cognito-idp")
        try:
            found = client.describe_user_pool_domain(Domain=f"{config.name}-{self._account}")
        except client.exceptions.ResourceNotFoundException:
            return None
        pool: str | None = found["DomainDescription"].get("UserPoolId")  # empty if there is none
        return pool

    def _find_taken(self, config: Config) -> dict[str, frozenset[str]]:
        found: dict[str, frozenset[str]] = {}
        for kind, wanted in list_expected(config).items():
            service, find = FINDERS[kind]
            ids = self._try(
                f"names ({service})",
                lambda service=service, find=find: list(find(self._client(service), config.name)),  # type: ignore[misc]
            )
            found[kind] = frozenset(map(_name, ids or ())) & wanted
        return found


FINDERS: Mapping[str, tuple[str, Callable[[Any, str], Any]]] = {
    "AWS::Lambda::Function": ("lambda", existing.functions),
    "AWS::SQS::Queue": ("sqs", existing.queues),
    "AWS::SNS::Topic": ("sns", existing.topics),
    "AWS::Logs::LogGroup": ("logs", existing.log_groups),
    "AWS::AutoScaling::AutoScalingGroup": ("autoscaling", existing.groups),
}
"""How the names of a type are found."""


def _name(found: str) -> str:
    """Return the name in a URL of a queue or an ARN of a topic; else what was found."""
    if found.startswith(("http://", "https://")):
        return found.rpartition("/")[2]
    return found.rpartition(":")[2] if found.startswith("arn:") else found
