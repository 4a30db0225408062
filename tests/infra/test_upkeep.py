"""What runs by the clock and on dead letters: when, on what, and where its failures go."""

from typing import Any

from tests.infra.synthesis import Deployment

DEAD_LETTERS = {
    f"joblane-{queue}-{lane}-dlq"
    for queue in ("default", "bulk")
    for lane in ("high", "default", "low")
}


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


def test_requeue_runs_every_minute_and_its_failures_go_to_alternate(
    production: Deployment,
) -> None:
    rule = rules(production)["Joblane: do what has become due"]
    (target,) = rule["Targets"]
    (alternate,) = production.resources("AWS::SQS::Queue", "upkeep")
    invoke = production.one("AWS::Lambda::EventInvokeConfig", "upkeep")

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
        assert {"MaximumConcurrency": 2} == mapping["ScalingConfig"]
        read.add(mapping["EventSourceArn"]["Fn::Join"][1][-1].rpartition(":")[2])
    assert DEAD_LETTERS | {"joblane-alternate"} == read


def test_upkeep_runs_as_long_as_it_may(production: Deployment) -> None:
    functions = production.properties("AWS::Lambda::Function", "upkeep")
    assert {"joblane-requeue": 55, "joblane-dead_letter": 20, "joblane-instance_end": 29} == {
        function["FunctionName"]: function["Timeout"] for function in functions
    }
    for queue in production.properties("AWS::SQS::Queue"):
        assert queue["VisibilityTimeout"] >= 6 * 20


def test_upkeep_is_told_what_it_serves(production: Deployment) -> None:
    shared = {
        "JOBLANE_DEPLOYMENT",
        "JOBLANE_JOBS_TABLE",
        "JOBLANE_QUEUE_URL_PREFIX",
        "JOBLANE_RETENTION",
        "POWERTOOLS_SERVICE_NAME",
    }
    for function in production.properties("AWS::Lambda::Function", "upkeep"):
        assert shared <= set(function["Environment"]["Variables"])


def test_alternate_is_kept_and_refuses_plain_http_and_strangers(production: Deployment) -> None:
    queue = production.one("AWS::SQS::Queue", "upkeep")
    policy = production.one("AWS::SQS::QueuePolicy", "upkeep")
    refused, events = policy["PolicyDocument"]["Statement"]

    assert ("joblane-alternate", 14 * 24 * 3600) == (
        queue["QueueName"],
        queue["MessageRetentionPeriod"],
    )
    assert ("Deny", {"Bool": {"aws:SecureTransport": "false"}}) == (
        refused["Effect"],
        refused["Condition"],
    )
    assert ("Allow", {"Service": "events.amazonaws.com"}, "sqs:SendMessage") == (
        events["Effect"],
        events["Principal"],
        events["Action"],
    )
    assert "ArnEquals" in events["Condition"]
