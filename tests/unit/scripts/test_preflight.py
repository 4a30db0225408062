"""The preflight of `scripts/cdk deploy`: what it refuses, what it says, and what it lets pass."""

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError, NoCredentialsError
from botocore.stub import Stubber

from infra.config import load_config
from joblane.config import Config
from joblane.config.queue import Queue
from joblane.formats.ids import nth_id
from joblane.job.head import make_head
from joblane.state.lifecycle import State
from scripts.deploying import deploy, destroy
from scripts.deploying import stranded as stranded_jobs
from scripts.deploying.errors import DeployError
from scripts.deploying.expected import list_expected
from scripts.deploying.facts import Account
from scripts.deploying.options import parse, region_of
from scripts.deploying.preflight import (
    ASKS,
    ON_DEMAND,
    SPOT,
    Concurrency,
    Declared,
    Facts,
    findings,
    line_of,
)
from scripts.deploying.session import identity, new_session
from scripts.deploying.stranded import Kind, Stranded, count_stranded, find_leaving
from tests.support.aws import NAME, Cloud
from tests.support.jobs import JOB, submission

ROOT = Path(__file__).resolve().parents[3]
ACCOUNT, REGION = "111122223333", "eu-west-1"
RESERVED = 117

READY = Facts(
    account=ACCOUNT,
    region=REGION,
    bootstrap=30,
    concurrency=Concurrency(1000, 1000, 0),
    vcpus={"c7g.large": 2, "c6g.large": 2},
    quotas={ON_DEMAND: 32.0, SPOT: 32.0},
)
"""An account in which nothing is deployed, and nothing stands in the way."""


@pytest.fixture(name="declared")
def _declared() -> Declared:
    """The repository's own joblane.toml."""
    path = ROOT / "joblane.toml"
    return Declared("joblane.toml", path.read_text(encoding="utf-8"), load_config(path))


def changed(declared: Declared, **fleet: Any) -> Declared:
    """The same with other settings of its fleet."""
    main = declared.config.fleets["main"].model_copy(update=fleet)
    config = declared.config.model_copy(update={"fleets": {"main": main}})
    return replace(declared, config=config)


def refused(declared: Declared, facts: Facts) -> list[str]:
    return [each.text for each in findings(declared, facts, RESERVED, "never") if each.refuses]


def said(declared: Declared, facts: Facts) -> list[str]:
    return [each.text for each in findings(declared, facts, RESERVED, "never") if not each.refuses]


def test_nothing_stands_in_the_way_of_a_deployment_in_an_account_that_is_ready(declared: Declared):
    assert [] == findings(declared, READY, RESERVED, "never")


def test_without_an_answer_for_the_cdk_it_says_that_the_cdk_asks(declared: Declared):
    assert [ASKS] == [each.text for each in findings(declared, READY, RESERVED, None)]


def test_filters_are_refused_on_a_python_of_aws_that_cannot_load_their_library(declared: Declared):
    functions = declared.config.functions.model_copy(update={"runtime": "python3.11"})
    queue = Queue(filter="true", filter_order=1)
    old = declared.config.model_copy(update={"functions": functions})
    queues = {**old.queues, "big": queue}
    assert [] == refused(replace(declared, config=old), READY)  # without filters
    (line,) = refused(replace(declared, config=old.model_copy(update={"queues": queues})), READY)
    assert line == (
        "joblane.toml, line 18: functions.runtime: python3.11 cannot evaluate the filter of "
        "queue big: AWS runs it on Amazon Linux 2, whose C library is too old for the library of "
        "filters; use python3.12 or later"
    )
    new = declared.config.model_copy(update={"queues": queues})
    assert [] == refused(replace(declared, config=new), READY)


@pytest.mark.parametrize(
    ("version", "text"),
    [
        (0, "aws://111122223333/eu-west-1 is not bootstrapped for the CDK: scripts/cdk bootstrap"),
        (5, "has version 5, and 6 is needed: scripts/cdk bootstrap"),
    ],
)
def test_an_account_without_a_bootstrap_is_refused(declared: Declared, version: int, text: str):
    (line,) = refused(declared, replace(READY, bootstrap=version))
    assert line.endswith(text)


@pytest.mark.parametrize(
    ("has", "fits"),
    [
        (Concurrency(10, 10, 0), False),  # a new account
        (Concurrency(216, 216, 0), False),
        (Concurrency(217, 217, 0), True),
        (Concurrency(1000, 200, 0), False),  # others have reserved 800
        (Concurrency(1000, 217, 0), True),
        (Concurrency(217, 100, 117), True),  # an upgrade: the deployment has its own
        (Concurrency(217, 101, 116), True),  # and reserved one less before
        (None, True),  # unknown
    ],
)
def test_reserved_concurrency_needs_a_quota(
    declared: Declared, has: Concurrency | None, *, fits: bool
):
    lines = refused(declared, replace(READY, concurrency=has))
    assert fits is (lines == [])
    if has is not None and not fits:
        (line,) = lines
        number = 1 + declared.text.splitlines().index(
            "reserved_concurrency = true # false in a new AWS account: docs/how-to/deploy.md"
        )
        assert line.startswith(f"joblane.toml, line {number}: functions.reserved_concurrency = tr")
        others = has.limit - has.unreserved
        assert f"quota here is {has.limit}, of which others reserve {others}:" in line
        functions = declared.config.functions.model_copy(update={"reserved_concurrency": False})
        without = declared.config.model_copy(update={"functions": functions})
        assert [] == refused(replace(declared, config=without), replace(READY, concurrency=has))


def test_a_type_that_the_region_does_not_offer_is_refused(declared: Declared):
    (line,) = refused(declared, replace(READY, vcpus={"c7g.large": 2}))
    assert "fleets.main.instance_types: EC2 offers no c6g.large in eu-west-1" in line


@pytest.mark.parametrize(
    ("fleet", "refuses", "says"),
    [
        ({"min_size": 16, "max_size": 16}, [], []),
        ({"min_size": 17, "max_size": 20}, ["min_size: all fleets need 34 on-demand vCPUs"], []),
        ({"max_size": 17}, [], ["max_size: all fleets need 34 on-demand vCPUs"]),
        # 5 on demand, and of the other 35 a fifth.
        ({"max_size": 40, "spot_percent": 80, "on_demand_base": 5}, [], ["56 spot vCPUs"]),
        ({"instance_types": ("g5.xlarge",), "min_size": 90, "max_size": 90}, [], []),
    ],
)
def test_sizes_of_fleets_are_compared_with_ec2s_quotas(
    declared: Declared, fleet: dict[str, Any], refuses: list[str], says: list[str]
):
    facts = replace(READY, vcpus={**(READY.vcpus or {}), "g5.xlarge": 4})
    fleets = changed(declared, **fleet)
    for lines, wanted in ((refused(fleets, facts), refuses), (said(fleets, facts), says)):
        assert len(wanted) == len(lines)
        assert all(each in line for each, line in zip(wanted, lines, strict=True))


def test_quotas_that_are_unknown_refuse_nothing_and_are_named(declared: Declared):
    facts = Facts(ACCOUNT, REGION, unread=("Lambda's quota: AccessDenied",))
    assert [] == refused(declared, facts)
    assert ["not checked: Lambda's quota: AccessDenied"] == said(declared, facts)


@pytest.mark.parametrize("status", ["DELETE_FAILED", "ROLLBACK_FAILED", "UPDATE_ROLLBACK_FAILED"])
def test_a_stack_from_which_no_deployment_goes_on_is_refused(declared: Declared, status: str):
    (line,) = refused(declared, replace(READY, stacks={"joblane-data": status}))
    assert line.startswith(f"the stack joblane-data is {status}: scripts/cdk ")
    assert [] == refused(declared, replace(READY, stacks={"joblane-data": "ROLLBACK_COMPLETE"}))


def test_a_login_domain_of_another_pool_is_refused(declared: Declared):
    facts = replace(READY, login_pool="eu-west-1_other")
    (line,) = refused(declared, facts)
    assert "name: the login domain joblane-111122223333 belongs to the user pool" in line
    owned = frozenset({("AWS::Cognito::UserPool", "eu-west-1_other")})
    assert [] == refused(declared, replace(facts, owned=owned))


def test_a_pool_that_has_stayed_is_said_and_refuses_nothing(declared: Declared):
    facts = replace(READY, pools=("eu-west-1_kept",))
    assert [] == refused(declared, facts)
    (line,) = said(declared, facts)
    assert "eu-west-1_kept of an earlier deployment is in no stack" in line


def test_a_name_that_is_taken_is_refused_unless_a_stack_of_the_deployment_has_it(
    declared: Declared,
):
    taken = {
        "AWS::Lambda::Function": frozenset({"joblane-admin"}),
        "AWS::SQS::Queue": frozenset({"joblane-alternate"}),
    }
    facts = replace(READY, taken=taken)
    assert ["AWS::Lambda::Function joblane-admin", "AWS::SQS::Queue joblane-alternate"] == [
        line.partition("name: ")[2].partition(" exists")[0] for line in refused(declared, facts)
    ]
    owned = frozenset((kind, name) for kind, names in taken.items() for name in names)
    assert [] == refused(declared, replace(facts, owned=owned))


def test_what_a_former_destroy_has_left_is_adopted(declared: Declared):
    """So no table, bucket or user pool is among the names that must be free."""
    adopted = {"AWS::DynamoDB::Table", "AWS::S3::Bucket", "AWS::Cognito::UserPool"}
    assert not adopted & list_expected(declared.config).keys()


def test_the_line_of_a_key_is_that_of_its_table():
    text = "name = 'a'\n[ functions ] # here\n# runtime = 'x'\nruntime = 'y'\n[queues.a]\nruntime=1"
    assert 1 == line_of(text, "", "name")
    assert 4 == line_of(text, "functions", "runtime")
    assert 6 == line_of(text, "queues.a", "runtime")
    assert line_of(text, "functions", "reserved_concurrency") is None
    assert line_of(text, "", "runtime") is None


@pytest.mark.parametrize(
    ("words", "config", "profile", "approval"),
    [
        ([], "joblane.toml", None, None),
        (["--all", "-c", "a=b", "-c", "config=x.toml"], "x.toml", None, None),
        (["--context=config=/etc/x.toml", "--profile", "ops"], "/etc/x.toml", "ops", None),
        (["--require-approval=never", "--pro", "x"], "joblane.toml", None, "never"),
    ],
)
def test_options_of_the_cdk_say_what_is_meant(
    words: list[str], config: str, profile: str | None, approval: str | None
):
    given = parse(words, ROOT)
    assert (ROOT / config, profile, approval) == (given.config, given.profile, given.approval)
    assert not given.asks
    assert parse([*words, "--help"], ROOT).asks


def test_the_region_is_read_as_the_cdk_reads_it():
    """boto3 does not know AWS_REGION."""
    both = {"AWS_REGION": "eu-west-1", "AWS_DEFAULT_REGION": "us-east-1"}
    assert "eu-west-1" == region_of(both)
    assert "us-east-1" == region_of({**both, "AWS_REGION": ""})
    assert region_of({}) is None


@pytest.fixture(name="nowhere")
def _nowhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without credentials, a Region and a profile."""
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    for name in ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"):
        monkeypatch.setenv(name, "/dev/null")


@pytest.mark.usefixtures("nowhere")
@pytest.mark.parametrize("main", [deploy.main, destroy.main])
@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["--all"], "no Region is set; set AWS_REGION, such as AWS_REGION=eu-west-1"),
        (["--profile", "none"], "The config profile (none) could not be found; aws configure"),
        (["-c", "config=none.toml"], "none.toml: no such file; -c config=PATH names another"),
    ],
)
def test_what_is_missing_is_one_line(
    main: Any, words: list[str], line: str, capsys: pytest.CaptureFixture[str]
):
    assert 1 == main(words)
    said_once = capsys.readouterr().err
    assert 1 == said_once.count("\n")
    assert line in said_once


def test_credentials_that_do_not_work_are_one_line(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("AWS_REGION", REGION)
    session = new_session()

    class Sts:
        def get_caller_identity(self) -> None:
            raise NoCredentialsError

    monkeypatch.setattr(session, "client", lambda _service: Sts())
    with pytest.raises(DeployError, match="no usable credentials of an AWS account: Unable to lo"):
        identity(session)


class Stubbed:
    """Clients of an account, which answer as AWS documents it."""

    def __init__(self) -> None:
        session = boto3.Session("x", "x", region_name=REGION)
        services = ("autoscaling", "cloudformation", "cognito-idp", "ec2", "lambda", "logs")
        services += ("service-quotas", "sns", "sqs", "ssm")  # type: ignore[assignment]
        self.clients = {each: session.client(each) for each in services}  # type: ignore[call-overload]
        self.stubs = {each: Stubber(client) for each, client in self.clients.items()}
        for stub in self.stubs.values():
            stub.activate()

    def answers(self, service: str, operation: str, answer: dict[str, Any]) -> None:
        """Answer the next call of a service."""
        self.stubs[service].add_response(operation, answer)

    def refuses(self, service: str, operation: str, code: str) -> None:
        """Refuse the next call of a service."""
        self.stubs[service].add_client_error(operation, code)

    def facts(self, config: Config) -> Facts:
        """Read them."""
        return Account(self.clients.__getitem__, ACCOUNT, REGION).facts(config)


def test_facts_of_a_new_account_are_read(declared: Declared):
    account = Stubbed()
    account.answers("cloudformation", "describe_stacks", {"Stacks": []})
    account.refuses("ssm", "get_parameter", "ParameterNotFound")
    limits = {"ConcurrentExecutions": 10, "UnreservedConcurrentExecutions": 10}
    account.answers("lambda", "get_account_settings", {"AccountLimit": limits})
    types = [{"InstanceType": "c7g.large", "VCpuInfo": {"DefaultVCpus": 2}}]
    account.answers("ec2", "describe_instance_types", {"InstanceTypes": types})
    account.refuses("service-quotas", "get_service_quota", "NoSuchResourceException")
    account.answers("service-quotas", "get_aws_default_service_quota", {"Quota": {"Value": 5.0}})
    account.answers("cognito-idp", "describe_user_pool_domain", {"DomainDescription": {}})
    pool = {"Id": "eu-west-1_kept", "Name": "joblane"}
    account.answers("cognito-idp", "list_user_pools", {"UserPools": [pool]})
    account.answers("lambda", "list_functions", {"Functions": [{"FunctionName": "joblane-admin"}]})
    url = f"https://sqs.eu-west-1.amazonaws.com/{ACCOUNT}/joblane-alternate"
    account.answers("sqs", "list_queues", {"QueueUrls": [url, f"{url}-of-others"]})
    topic = f"arn:aws:sns:eu-west-1:{ACCOUNT}:joblane-dead-letters"
    account.answers("sns", "list_topics", {"Topics": [{"TopicArn": topic}]})
    for _ in range(4):
        account.answers("logs", "describe_log_groups", {"logGroups": []})
    account.answers("autoscaling", "describe_auto_scaling_groups", {"AutoScalingGroups": []})
    facts = account.facts(declared.config)
    assert () == facts.unread
    assert (0, Concurrency(10, 10, 0)) == (facts.bootstrap, facts.concurrency)
    assert {"c7g.large": 2} == facts.vcpus
    assert {ON_DEMAND: 5.0} == facts.quotas
    assert (None, ("eu-west-1_kept",)) == (facts.login_pool, facts.pools)
    assert {
        "AWS::Lambda::Function": {"joblane-admin"},
        "AWS::SQS::Queue": {"joblane-alternate"},
        "AWS::SNS::Topic": {"joblane-dead-letters"},
        "AWS::Logs::LogGroup": set(),
        "AWS::AutoScaling::AutoScalingGroup": set(),
    } == facts.taken


def test_a_caller_who_may_do_nothing_but_assume_the_cdks_roles_is_not_refused(declared: Declared):
    account = Stubbed()

    def client(service: str) -> Any:
        class Refusing:
            exceptions = account.clients[service].exceptions

            def __getattr__(self, operation: str) -> Any:
                error = {"Error": {"Code": "AccessDenied", "Message": "no"}}
                raise ClientError(error, operation)  # type: ignore[arg-type]

        return Refusing()

    facts = Account(client, ACCOUNT, REGION).facts(declared.config)
    assert [] == refused(declared, facts)
    assert 8 <= len(said(declared, facts))


def test_facts_of_an_upgrade_are_read(declared: Declared):
    """SQS names a queue by several URLs; CloudFormation by one of them."""
    account = Stubbed()
    stack = {
        "StackName": "joblane-lanes",
        "StackStatus": "UPDATE_COMPLETE",
        "CreationTime": datetime(2026, 1, 1, tzinfo=UTC),
    }
    others = [
        {**stack, "StackName": "joblane-test-data"},
        {**stack, "StackName": "joblane-data", "StackStatus": "DELETE_COMPLETE"},
    ]
    account.answers("cloudformation", "describe_stacks", {"Stacks": [stack, *others]})
    resource = {
        "LogicalResourceId": "Alternate",
        "PhysicalResourceId": f"https://sqs.us-east-1.amazonaws.com/{ACCOUNT}/joblane-alternate",
        "ResourceType": "AWS::SQS::Queue",
        "LastUpdatedTimestamp": datetime(2026, 1, 1, tzinfo=UTC),
        "ResourceStatus": "CREATE_COMPLETE",
    }
    summaries = {"StackResourceSummaries": [resource]}
    account.answers("cloudformation", "list_stack_resources", summaries)
    url = f"https://queue.amazonaws.com/{ACCOUNT}/joblane-alternate"
    account.answers("sqs", "list_queues", {"QueueUrls": [url]})
    limits = {"ConcurrentExecutions": 217, "UnreservedConcurrentExecutions": 213}
    account.answers("lambda", "get_account_settings", {"AccountLimit": limits})
    functions = list_expected(declared.config)["AWS::Lambda::Function"]
    for name in sorted(functions):
        if name == "joblane-scaler":
            account.refuses("lambda", "get_function_concurrency", "ResourceNotFoundException")
        else:
            has = {"ReservedConcurrentExecutions": 4} if name == "joblane-dead_letter" else {}
            account.answers("lambda", "get_function_concurrency", has)
    facts = account.facts(declared.config)
    assert {"joblane-lanes": "UPDATE_COMPLETE"} == facts.stacks
    assert Concurrency(217, 213, 4) == facts.concurrency
    assert frozenset({"joblane-alternate"}) == facts.taken["AWS::SQS::Queue"]
    assert [] == refused(declared, facts)


WAITS = "they wait for capacity of it, and its next test fails them: cancel them, or keep it"
LOST = "nobody can see or stop them any more: cancel them before that"
UNSEEN = "no job that was looked at names it, others may"
STAYS = (
    "no agent gets them any more: keep it with retired = true, and moves_to, until it is empty "
    "(docs/how-to/remove-or-rename-a-queue.md)"
)


@pytest.mark.parametrize(
    ("stranded", "texts"),
    [
        (Stranded(), []),
        (Stranded({("queues", "old"): 0}), []),
        (
            Stranded({("queues", "old"): 1, ("fleets", "gpu"): 12}),
            [
                f"joblane.toml: queues.old is gone, and 1 open job names it: {STAYS}",
                f"joblane.toml: fleets.gpu is gone, and 12 open jobs name it: {WAITS}",
            ],
        ),
        (
            Stranded({("tenants", "acme"): 0}, all=False),
            [f"joblane.toml: tenants.acme is gone; {UNSEEN}: {LOST}"],
        ),
    ],
)
def test_jobs_of_what_goes_are_said_and_refuse_nothing(
    declared: Declared, stranded: Stranded, texts: list[str]
):
    facts = replace(READY, stranded=stranded)
    assert [] == refused(declared, facts)
    assert texts == said(declared, facts)


def lanes_of(queue: str) -> set[tuple[str, str]]:
    lanes = ("high", "default", "low")
    return {("AWS::SQS::Queue", f"joblane-lane-{queue}_{lane}") for lane in lanes}


def test_what_the_stacks_have_and_joblane_toml_lacks_goes(declared: Declared):
    owned = {
        *lanes_of("default"),
        *lanes_of("old-one"),
        ("AWS::SQS::Queue", "joblane-alternate"),
        ("AWS::SQS::Queue", "joblane-inbox-old_high"),
        ("AWS::Cognito::UserPoolGroup", "main:operator"),
        ("AWS::Cognito::UserPoolGroup", "acme:operator"),
        ("AWS::Cognito::UserPoolGroup", "platform"),
    }
    stacks = ["joblane-data", "joblane-fleet-main", "joblane-fleet-gpu", "other-fleet-x"]
    leaving = [("queues", "old-one"), ("tenants", "acme"), ("fleets", "gpu")]
    assert leaving == find_leaving(declared.config, owned, stacks)
    assert [] == find_leaving(declared.config, lanes_of("default"), ["joblane-fleet-main"])


def client_of(aws: Cloud) -> Callable[[str], Any]:
    clients: Any = aws.clients
    make: Callable[[str], Any] = clients.make
    return make


def test_open_jobs_are_counted_by_what_they_name(aws: Cloud, declared: Declared):
    config = declared.config.model_copy(
        update={"name": NAME, "tenants": {"acme": declared.config.tenants["main"]}}
    )
    now_ms = 1_800_000_000_000
    gpu = {"requires": ["capacity:gpu"]}
    jobs: list[dict[str, Any]] = [{}, {"queue": "old"}, {"queue": "old", **gpu}, gpu]
    for number, fields in enumerate(jobs):
        head = make_head(nth_id(JOB, number), "acme", submission(**fields), now_ms)
        aws.jobs.put_new(head)
    ended = make_head(nth_id(JOB, 9), "acme", submission(queue="old"), now_ms)
    aws.jobs.put_new(replace(ended, state=State.COMPLETED, expires_at=now_ms))
    aws.jobs.put_new(make_head(nth_id(JOB, 10), "gone", submission(queue="old"), now_ms))

    def count(*leaving: tuple[Kind, str]) -> Stranded:
        return count_stranded(client_of(aws), config, leaving)

    assert Stranded() == count()
    old: tuple[Kind, str] = ("queues", "old")
    assert Stranded({old: 2, ("fleets", "gpu"): 2}) == count(old, ("fleets", "gpu"))
    assert Stranded({old: 3, ("tenants", "gone"): 1}) == count(old, ("tenants", "gone"))


def test_a_count_of_very_many_jobs_says_that_there_may_be_more(
    aws: Cloud, declared: Declared, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(stranded_jobs, "PAGE", 1)
    monkeypatch.setattr(stranded_jobs, "MOST", 2)
    config = declared.config.model_copy(
        update={"name": NAME, "tenants": {"acme": declared.config.tenants["main"]}}
    )
    for number in range(3):
        head = make_head(nth_id(JOB, number), "acme", submission(queue="old"), 1_800_000_000_000)
        aws.jobs.put_new(head)
    old: tuple[Kind, str] = ("queues", "old")
    assert Stranded({old: 2}, all=False) == count_stranded(client_of(aws), config, [old])
