"""Composes the function `recovery`: steps of recovery, tests before jobs start."""

from collections.abc import Callable, Mapping
from functools import cache

from aws_lambda_powertools.logging import Logger
from pydantic import Json

from joblane.aws.clients import LONG_POLL, Clients
from joblane.aws.condition.conditions import ConditionStore
from joblane.aws.condition.directory import AppStore
from joblane.aws.condition.executions import Executions
from joblane.aws.condition.places import ConditionPlaces
from joblane.aws.environment import Environment
from joblane.aws.fleet.agents import AgentStore
from joblane.aws.functions import CalledFunction
from joblane.aws.job.jobs import JobStore
from joblane.aws.queue.lanes import Lanes
from joblane.condition.policies import AnyPolicy
from joblane.deployment.limits import Limits
from joblane.service.condition.recover import MAX_STEPS, Recovery
from joblane.service.condition.supervisor import ConditionSupervisor
from joblane.service.condition.testers import Tester
from joblane.service.condition.testers.remote import RemoteTester
from joblane.service.condition.testers.tables import AppTester, Slots, SlotsTester
from joblane.service.condition.tests import ConditionTests
from joblane.state.retention import Retention


class Settings(Environment):
    """The function's environment."""

    jobs_table: str
    agents_table: str
    conditions_table: str
    recovery_arn: str
    tenant_queues: Json[dict[str, tuple[str, ...]]]
    """Queues that each tenant may use."""
    fleet_queues: Json[dict[str, tuple[str, ...]]]
    """Queues that each fleet serves."""
    policies: Json[dict[str, AnyPolicy]]
    """Policy of each kind that does not have the default one."""
    tester_function: str
    """Tests conditions that name an address."""
    retention: Json[Retention]
    limits: Json[Limits]


def build(
    settings: Settings,
    clients: Clients,
    clock: Callable[[], float],
    testers: Mapping[str, Tester] | None = None,
    max_steps: int = MAX_STEPS,
) -> Recovery:
    """Compose the function from its settings, its clients and a clock in Unix seconds.

    `testers` replace those of their kinds.
    """
    dynamodb = clients.make("dynamodb")
    tester = CalledFunction(
        cache(lambda: clients.make("lambda", LONG_POLL)), settings.tester_function
    )
    slots = Slots(AgentStore(dynamodb, settings.agents_table), clock)
    by_kind: dict[str, Tester] = {
        "http": RemoteTester("http", tester),
        "tcp": RemoteTester("tcp", tester),
        "quota": SlotsTester(slots, "tenant", settings.tenant_queues),
        "capacity": SlotsTester(slots, "fleet", settings.fleet_queues),
        "app": AppTester(AppStore(dynamodb, settings.conditions_table), clock),
        **(testers or {}),
    }
    conditions = ConditionStore(dynamodb, settings.conditions_table)
    supervisor = ConditionSupervisor(
        conditions,
        Executions(clients.make("stepfunctions"), settings.recovery_arn),
        ConditionPlaces(dynamodb, settings.conditions_table),
        settings.limits,
    )
    return Recovery(
        JobStore(dynamodb, settings.jobs_table),
        conditions,
        supervisor,
        Lanes(clients.make("sqs"), settings.queue_url_prefix, settings.deployment),
        ConditionTests(conditions, by_kind),
        policies=settings.policies,
        retention=settings.retention,
        now_ms=lambda: int(clock() * 1000),
        log=Logger(),
        max_steps=max_steps,
    )
