"""The settings of the functions of a deployment in memory."""

import json
from typing import Annotated, Any, Final, Self

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, ValidationError, model_validator

from joblane.contract.problems import field_problems
from joblane.deployment.limits import Limits
from joblane.deployment.names import (
    PLATFORM,
    Name,
    bucket_name,
    recovery_name,
    table_name,
    topic_name,
)
from joblane.key.policy import KeyTemplate
from joblane.state.retention import Retention
from joblane.testing.memory.schemas import NAME
from joblane.testing.memory.sqs import PREFIX

ACCOUNT: Final = "123456789012"

BUCKET: Final = bucket_name(NAME, ACCOUNT, "us-east-1")

THREADS: Final = 100
"""Jobs of a queue that one agent runs at once."""

PLATFORM_CLIENT: Final = "client-platform"
"""The OAuth client of the role platform; that of a tenant is `client-<tenant>`."""


class Declared(BaseModel):
    """What a test declares of its deployment, by the rules of joblane.toml."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    queues: Annotated[tuple[Name, ...], Field(min_length=1)]
    tenants: Annotated[tuple[Name, ...], Field(min_length=1)]
    agents: Annotated[int, Field(ge=0, strict=True)]
    concurrency: dict[Name, KeyTemplate]
    limits: Limits
    start: AwareDatetime

    @model_validator(mode="after")
    def _check(self) -> Self:
        for field, names in (("queues", self.queues), ("tenants", self.tenants)):
            if len(set(names)) < len(names):
                raise ValueError(f"{field} must be different")
        if PLATFORM in self.tenants:
            raise ValueError(f"tenants: {PLATFORM} is no tenant; client({PLATFORM!r}) has its role")
        return self

    @classmethod
    def of(cls, **values: Any) -> Self:
        """Check what a test declares. Raises ValueError, which names each wrong value."""
        try:
            return cls(**values)
        except ValidationError as error:
            problems = (f"{found.field}: {found.problem}" for found in field_problems(error))
            raise ValueError(f"FakeDeployment: {'; '.join(problems)}") from None


def environment(declared: Declared, retention: Retention) -> dict[str, str]:
    """The environment of all functions; each reads what it needs."""
    names, owners = list(declared.queues), list(declared.tenants)
    machines = {f"client-{tenant}": [tenant, "admin", "test"] for tenant in owners}
    tables = ("jobs", "agents", "conditions", "audit", "output", "types", "keys", "settings")
    values: dict[str, Any] = {
        "queues": {name: [] for name in names},
        "retired": {},
        "maxima": {},
        "fleet_queues": {"main": names},
        "tenant_queues": dict.fromkeys(owners, names),
        "without_host_network": [],
        "default_queues": {},
        "deadlines": {},
        "filters": [],
        "limits": declared.limits.model_dump(mode="json"),
        "jobs_running": {owner: declared.limits.of(owner).jobs_running for owner in owners},
        "retention": retention.model_dump(mode="json"),
        "concurrency": {
            name: template.model_dump(mode="json")
            for name, template in declared.concurrency.items()
        },
        "notify": {},
        "notifies": False,
        "architectures": ["arm64", "x86_64"],
        "tenants": owners,
        "threads": dict.fromkeys(names, THREADS),
        "policies": {},
        "login": {
            "openid_configuration": "https://issuer.test/.well-known/openid-configuration",
            "client_id": "people",
            "scopes": [],
            "audience": None,
        },
        "access": {
            "kind": "pool",
            "tenants": owners,
            "people": "people",
            "machines": {**machines, PLATFORM_CLIENT: ["platform", "platform", "test"]},
        },
    }
    texts = {
        **{f"{table}_table": table_name(NAME, table) for table in (*tables, "counters")},
        "deployment": NAME,
        "queue_url_prefix": PREFIX,
        "bucket": BUCKET,
        "default_queue": names[0],
        "topic": f"arn:aws:sns:us-east-1:{ACCOUNT}:{topic_name(NAME)}",
        "recovery_arn": f"arn:aws:states:us-east-1:{ACCOUNT}:stateMachine:{recovery_name(NAME)}",
        "tester_function": f"{NAME}-tester",
        "api_url": "https://joblane.test",
        **{name: json.dumps(value) for name, value in values.items()},
    }
    return {f"JOBLANE_{name.upper()}": text for name, text in texts.items()}
