"""Scheduled functions and the dead-letter reader: triggers, sources, failure destinations."""

import json
import re
from typing import Any

from functions.instance_end.handler import SWEEP
from infra.reserved import NOTIFIER_RESERVED as NOTIFIER
from tests.infra.synthesis import ROOT, Deployment

CONFIGURATION = ROOT / "docs/reference/configuration.md"


def rules(deployment: Deployment) -> dict[str, Any]:
    """Rules by what they say they are for."""
    return {r["Description"]: r for r in deployment.properties("AWS::Events::Rule", "upkeep")}


def test_only_the_end_of_an_instance_frees_jobs(production: Deployment) -> None:
    """While it shuts down its agent may still run."""
    rule = rules(production)["Joblane: free the jobs of an instance that has ended"]
    assert {
        "source": ["aws.ec2"],
        "detail-type": ["EC2 Instance State-change Notification"],
        "detail": {"state": ["terminated", "stopped"]},
    } == rule["EventPattern"]


def test_inboxes_without_an_agent_are_looked_for_once_a_day(production: Deployment) -> None:
    rule = rules(production)["Joblane: delete the inboxes of agents that are gone"]
    assert "rate(1 day)" == rule["ScheduleExpression"]
    (target,) = rule["Targets"]
    assert SWEEP == json.loads(target["Input"])
    assert target["Arn"]["Fn::GetAtt"][0].startswith("Instanceend")


def test_the_function_that_deletes_inboxes_is_there_while_instances_end(
    production: Deployment,
) -> None:
    """`cdk destroy` deletes a stack before those that it depends on."""
    manifest = json.loads((production.folder / "cdk.out/manifest.json").read_text(encoding="utf-8"))
    assert "joblane-upkeep" in manifest["artifacts"]["joblane-fleet-main"]["dependencies"]


def test_instances_without_an_agent_are_looked_for_every_minute(production: Deployment) -> None:
    rule = rules(production)["Joblane: replace instances without an agent"]
    assert "rate(1 minute)" == rule["ScheduleExpression"]
    (target,) = rule["Targets"]
    assert target["Arn"]["Fn::GetAtt"][0].startswith("Instancewatch")


def failures(deployment: Deployment, stack: str, function: str) -> Any:
    """What becomes of a function's asynchronous calls that fail."""
    found = deployment.properties("AWS::Lambda::EventInvokeConfig", stack)
    (config,) = [c for c in found if c["FunctionName"]["Ref"].startswith(function)]
    return config


def test_every_event_that_nobody_waits_for_ends_in_alternate_if_it_fails(
    production: Deployment,
) -> None:
    """Rules that cannot hand over, and functions that fail every time."""
    every_rule = production.properties("AWS::Events::Rule")
    assert 6 == len(every_rule)
    for rule in every_rule:
        for target in rule["Targets"]:
            assert is_alternate(production, target["DeadLetterConfig"]["Arn"])
    for stack, function in (
        ("upkeep", "Requeue"),
        ("upkeep", "Instanceend"),
        ("upkeep", "Instancewatch"),
        ("recovery", "Recovery"),
    ):
        config = failures(production, stack, function)
        assert is_alternate(production, config["DestinationConfig"]["OnFailure"]["Destination"])


def test_alternate_takes_what_the_rule_of_recovery_could_not_deliver(
    production: Deployment,
) -> None:
    statements = [
        statement
        for policy in production.properties("AWS::SQS::QueuePolicy", "upkeep")
        for statement in policy["PolicyDocument"]["Statement"]
        if "ArnEquals" in statement.get("Condition", {})
    ]
    sources = [str(s["Condition"]["ArnEquals"]["aws:SourceArn"]) for s in statements]
    assert [True] == [
        ":rule/joblane-recovery-failed" in source for source in sources if "Join" in source
    ]
    assert 6 == len(sources)


def id_of_alternate(deployment: Deployment) -> str:
    """Logical id of the queue `alternate`."""
    queues = deployment.resources("AWS::SQS::Queue", "upkeep")
    (found,) = (
        logical_id
        for logical_id, queue in queues.items()
        if queue["Properties"]["QueueName"] == "joblane-alternate"
    )
    return found


def is_alternate(deployment: Deployment, arn: Any) -> bool:
    """Whether an ARN is that of the queue `alternate`, by reference or by name."""
    alternate = id_of_alternate(deployment)
    by_name = "Fn::Join" in arn and arn["Fn::Join"][1][-1].endswith(":joblane-alternate")
    return bool(by_name) or arn == {"Fn::GetAtt": [alternate, "Arn"]}


def test_requeue_runs_every_minute_and_its_failures_go_to_alternate(
    production: Deployment,
) -> None:
    rule = rules(production)["Joblane: do what has become due"]
    (target,) = rule["Targets"]
    alternate = id_of_alternate(production)
    invoke = failures(production, "upkeep", "Requeue")

    assert ("rate(1 minute)", "ENABLED") == (rule["ScheduleExpression"], rule["State"])
    assert {"Fn::GetAtt": [alternate, "Arn"]} == target["DeadLetterConfig"]["Arn"]
    assert 0 == target["RetryPolicy"]["MaximumRetryAttempts"]
    assert (0, 60, {"OnFailure": {"Destination": {"Fn::GetAtt": [alternate, "Arn"]}}}) == (
        invoke["MaximumRetryAttempts"],
        invoke["MaximumEventAgeInSeconds"],
        invoke["DestinationConfig"],
    )


def test_every_queue_of_letters_has_its_reader(laptop: Deployment) -> None:
    read = set()
    for mapping in laptop.properties("AWS::Lambda::EventSourceMapping", "upkeep"):
        assert ["ReportBatchItemFailures"] == mapping["FunctionResponseTypes"]
        source = mapping["EventSourceArn"]
        if "Fn::Join" in source:  # the queue `due` is read by a function of its own
            assert {"MaximumConcurrency": 2} == mapping["ScalingConfig"]
            read.add(source["Fn::Join"][1][-1].rpartition(":")[2])
    assert {"joblane-dlq", "joblane-alternate"} == read


def test_the_queue_of_schedules_is_read_by_a_function_with_concurrency_of_its_own(
    production: Deployment,
) -> None:
    (mapping,) = (
        each
        for each in production.properties("AWS::Lambda::EventSourceMapping", "upkeep")
        if "Fn::GetAtt" in each["EventSourceArn"]
    )
    assert {"MaximumConcurrency": 20} == mapping["ScalingConfig"]
    assert 5 == mapping["BatchSize"]
    queues = production.resources("AWS::SQS::Queue", "upkeep")
    queue = queues[mapping["EventSourceArn"]["Fn::GetAtt"][0]]["Properties"]
    assert ("joblane-due", 180, 8) == (
        queue["QueueName"],
        queue["VisibilityTimeout"],
        queue["RedrivePolicy"]["maxReceiveCount"],
    )
    assert is_alternate(production, queue["RedrivePolicy"]["deadLetterTargetArn"])


def test_upkeep_runs_as_long_as_it_may(production: Deployment) -> None:
    functions = production.properties("AWS::Lambda::Function", "upkeep")
    assert {
        "joblane-requeue": 55,
        "joblane-dead_letter": 20,
        "joblane-instance_end": 29,
        "joblane-instance_watch": 29,
        "joblane-scaler": 29,
        "joblane-due": 30,
    } == {function["FunctionName"]: function["Timeout"] for function in functions}
    for queue in production.properties("AWS::SQS::Queue"):
        assert queue["VisibilityTimeout"] >= 6 * 20


def test_upkeep_is_told_what_it_serves(production: Deployment) -> None:
    shared = {
        "JOBLANE_DEPLOYMENT",
        "JOBLANE_QUEUE_URL_PREFIX",
        "POWERTOOLS_SERVICE_NAME",
    }
    for name in ("requeue", "dead_letter", "instance_end"):
        assert shared <= set(production.environment(name))
        assert "JOBLANE_RETENTION" in production.declared(name)


def test_alternate_is_kept_and_refuses_plain_http_and_strangers(production: Deployment) -> None:
    alternate = id_of_alternate(production)
    queue = production.resources("AWS::SQS::Queue", "upkeep")[alternate]["Properties"]
    (policy,) = (
        each
        for each in production.properties("AWS::SQS::QueuePolicy", "upkeep")
        if each["Queues"] == [{"Ref": alternate}]
    )
    refused, *allowed = policy["PolicyDocument"]["Statement"]

    assert ("joblane-alternate", 14 * 24 * 3600) == (
        queue["QueueName"],
        queue["MessageRetentionPeriod"],
    )
    assert ("Deny", {"Bool": {"aws:SecureTransport": "false"}}) == (
        refused["Effect"],
        refused["Condition"],
    )
    assert allowed
    for events in allowed:
        assert ("Allow", {"Service": "events.amazonaws.com"}, "sqs:SendMessage") == (
            events["Effect"],
            events["Principal"],
            events["Action"],
        )
        assert "ArnEquals" in events["Condition"]


def reserved(deployment: Deployment) -> dict[str, int]:
    """Functions with concurrency of their own, and how much each has."""
    return {
        function["FunctionName"].removeprefix("joblane-"): function["ReservedConcurrentExecutions"]
        for function in deployment.properties("AWS::Lambda::Function")
        if "ReservedConcurrentExecutions" in function
    }


def test_requests_that_use_up_the_accounts_concurrency_do_not_stop_what_must_run(
    production: Deployment,
) -> None:
    found = reserved(production)
    each = {"requeue": 2, "dead_letter": 4, "recovery": 50, "tester": 50, "sequel": 10, "scaler": 1}
    each["due"] = 20
    assert each == found
    # Each call of recovery waits for at most one of the tester.
    assert found["tester"] >= found["recovery"]
    # No queue alone can make Lambda throttle the reader; those of several can, for a while.
    for mapping in production.properties("AWS::Lambda::EventSourceMapping", "upkeep"):
        reader = "due" if "Due" in mapping["FunctionName"]["Ref"] else "dead_letter"
        assert mapping["ScalingConfig"]["MaximumConcurrency"] <= found[reader]
    # Lambda leaves the unreserved functions 100, and the key says how much an account needs.
    (said,) = re.findall(r"`reserved_concurrency`.*", CONFIGURATION.read_text(encoding="utf-8"))
    # Notifications have some of their own, if a tenant may ask for them.
    total = sum(found.values())
    figures = [total, NOTIFIER, total + 100, total + 100 + NOTIFIER]
    assert figures == [int(figure) for figure in re.findall(r"\d+", said)]


def test_a_new_account_can_reserve_nothing_and_deploys(varied: Deployment) -> None:
    assert {} == reserved(varied)
