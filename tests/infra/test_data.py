"""The data stack: tables, buckets and the descriptor."""

import json
from typing import Any

import pytest

from joblane.deployment.descriptor import Descriptor
from joblane.deployment.names import access_log_bucket_name
from tests.infra.synthesis import Deployment
from tests.infra.templates import parameters, resolve

KEYS = {
    "joblane-jobs": [("job_id", "HASH"), ("sk", "RANGE")],
    "joblane-agents": [("shard", "HASH"), ("agent", "RANGE")],
    "joblane-keys": [("key", "HASH")],
    "joblane-conditions": [("condition", "HASH"), ("sk", "RANGE")],
    "joblane-types": [("type", "HASH")],
    "joblane-settings": [("queue", "HASH")],
    "joblane-counters": [("series", "HASH"), ("at_minute", "RANGE")],
    "joblane-audit": [("tenant", "HASH"), ("id", "RANGE")],
    "joblane-output": [("stream", "HASH"), ("seq", "RANGE")],
}
INDEXES = {
    "by_tenant": [("tenant", "HASH"), ("job_id", "RANGE")],
    "attention": [("attention", "HASH"), ("job_id", "RANGE")],
    "wake": [("wake", "HASH"), ("wake_at", "RANGE")],
}


def schema(keys: list[dict[str, str]]) -> list[tuple[str, str]]:
    return [(key["AttributeName"], key["KeyType"]) for key in keys]


def tables(deployment: Deployment) -> dict[str, dict[str, Any]]:
    return {
        table["TableName"]: table for table in deployment.properties("AWS::DynamoDB::Table", "data")
    }


def test_the_tables_have_the_keys_of_the_design(production: Deployment) -> None:
    assert {name: schema(table["KeySchema"]) for name, table in tables(production).items()} == KEYS


def test_what_changes_is_indexed_by_keys_only(production: Deployment) -> None:
    found = tables(production)
    jobs = found.pop("joblane-jobs")["GlobalSecondaryIndexes"]

    assert {index["IndexName"]: schema(index["KeySchema"]) for index in jobs} == INDEXES
    assert [index["Projection"] for index in jobs] == [{"ProjectionType": "KEYS_ONLY"}] * 3
    (of_audit,) = found.pop("joblane-audit")["GlobalSecondaryIndexes"]
    assert [("job", "HASH"), ("id", "RANGE")] == schema(of_audit["KeySchema"])
    assert of_audit["Projection"] == {"ProjectionType": "ALL"}
    of_keys = found.pop("joblane-keys")["GlobalSecondaryIndexes"]
    assert {index["IndexName"]: schema(index["KeySchema"]) for index in of_keys} == {
        "by_type": [("type", "HASH"), ("key", "RANGE")],
        "waits": [("waits", "HASH"), ("look_at", "RANGE")],
    }
    assert [index["Projection"] for index in of_keys] == [{"ProjectionType": "KEYS_ONLY"}] * 2
    assert len(found) == 6
    assert not any("GlobalSecondaryIndexes" in table for table in found.values())


def test_nobody_changes_or_deletes_a_row_of_the_audit_trail(production: Deployment) -> None:
    found = tables(production)
    policy = found.pop("joblane-audit")["ResourcePolicy"]["PolicyDocument"]
    (statement,) = policy["Statement"]
    assert (statement["Effect"], statement["Principal"]) == ("Deny", {"AWS": "*"})
    assert statement["Resource"]["Fn::Join"][1][-1] == ":table/joblane-audit"
    assert "Condition" not in statement
    assert {"dynamodb:UpdateItem", "dynamodb:DeleteItem", "dynamodb:BatchWriteItem"} < set(
        statement["Action"]
    )
    assert not any("ResourcePolicy" in table for table in found.values())


def test_only_jobs_has_a_stream_and_it_shows_what_was_before(production: Deployment) -> None:
    found = tables(production)
    streams = {n: t["StreamSpecification"] for n, t in found.items() if "StreamSpecification" in t}
    assert {"joblane-jobs": {"StreamViewType": "NEW_AND_OLD_IMAGES"}} == streams


def test_the_projection_reads_the_stream_by_the_name_of_a_parameter(
    production: Deployment,
) -> None:
    """An export in use could not change, nor its table be replaced."""
    (jobs,) = (
        logical_id
        for logical_id, table in production.resources("AWS::DynamoDB::Table", "data").items()
        if table["Properties"]["TableName"] == "joblane-jobs"
    )
    name = "/joblane/jobs-stream"
    assert {"Fn::GetAtt": [jobs, "StreamArn"]} == parameters(production)[name]["Value"]
    assert "Outputs" not in production.templates["joblane-data"]
    asked = production.templates["joblane-projection"]["Parameters"]
    (stream,) = (key for key, parameter in asked.items() if parameter["Default"] == name)
    assert "AWS::SSM::Parameter::Value<String>" == asked[stream]["Type"]
    mappings = production.properties("AWS::Lambda::EventSourceMapping", "projection")
    assert [{"Ref": stream}] * 2 == [mapping["EventSourceArn"] for mapping in mappings]


def test_only_times_to_sort_by_are_numbers(production: Deployment) -> None:
    kinds = {
        (name, attribute["AttributeName"]): attribute["AttributeType"]
        for name, table in tables(production).items()
        for attribute in table["AttributeDefinitions"]
    }
    numbers = {key for key, kind in kinds.items() if kind == "N"}
    assert {
        ("joblane-jobs", "wake_at"),
        ("joblane-keys", "look_at"),
        ("joblane-counters", "at_minute"),
        ("joblane-output", "seq"),
    } == numbers
    assert {"S", "N"} == set(kinds.values())


@pytest.mark.parametrize("name", KEYS)
def test_each_table_expires_items_is_encrypted_and_costs_nothing_idle(
    production: Deployment, name: str
) -> None:
    table = tables(production)[name]

    assert table["TimeToLiveSpecification"] == {"AttributeName": "expires_at", "Enabled": True}
    assert table["SSESpecification"]["SSEEnabled"] is True
    assert table["BillingMode"] == "PAY_PER_REQUEST"


def test_the_descriptor_is_one_that_agents_accept(production: Deployment) -> None:
    parameter = parameters(production)["/joblane/descriptor"]
    text = resolve(parameter["Value"])

    descriptor = Descriptor.model_validate_json(text)

    assert (
        descriptor.lane_url("default", "high")
        == "https://sqs.eu-west-1.amazonaws.com/111122223333/joblane-lane-default_high"
    )
    assert (
        descriptor.jobs_table,
        descriptor.agents_table,
        descriptor.output_table,
    ) == ("joblane-jobs", "joblane-agents", "joblane-output")
    assert descriptor.queues["default"].threads == 8
    # A standard parameter holds no more.
    assert len(text.encode()) < 4096


def buckets(deployment: Deployment) -> tuple[dict[str, Any], dict[str, Any]]:
    """The bucket of submissions, and the one with the log of its accesses."""
    found = {
        resolve(bucket["BucketName"]): bucket
        for bucket in deployment.properties("AWS::S3::Bucket", "data")
    }
    name = "joblane-111122223333-eu-west-1"
    assert {name, f"{name}-log"} == set(found)
    return found[name], found[f"{name}-log"]


def test_the_bucket_is_named_for_the_account_and_the_descriptor_tells(
    production: Deployment,
) -> None:
    payloads, _ = buckets(production)
    name = resolve(payloads["BucketName"])
    assert name == "joblane-111122223333-eu-west-1"
    text = resolve(parameters(production)["/joblane/descriptor"]["Value"])
    assert name == Descriptor.model_validate_json(text).bucket
    longest = access_log_bucket_name("n" * 31, "1" * 12, "ap-southeast-1")
    assert len(longest) <= 63


def test_both_buckets_are_closed_encrypted_and_spoken_to_by_tls_only(
    production: Deployment,
) -> None:
    for bucket in buckets(production):
        assert set(bucket["PublicAccessBlockConfiguration"].values()) == {True}
        (encryption,) = bucket["BucketEncryption"]["ServerSideEncryptionConfiguration"]
        assert encryption == {"ServerSideEncryptionByDefault": {"SSEAlgorithm": "AES256"}}
        assert bucket["OwnershipControls"] == {
            "Rules": [{"ObjectOwnership": "BucketOwnerEnforced"}]
        }
    policies = production.properties("AWS::S3::BucketPolicy")
    assert 2 == len(policies)
    for policy in policies:
        denials = [s for s in policy["PolicyDocument"]["Statement"] if s["Effect"] == "Deny"]
        (denial,) = denials
        assert denial["Condition"] == {"Bool": {"aws:SecureTransport": "false"}}
        assert (denial["Action"], denial["Principal"]) == ("s3:*", {"AWS": "*"})


def test_submissions_outlive_their_jobs_and_output_stays_as_configured(
    production: Deployment, laptop: Deployment
) -> None:
    for deployment, days in ((production, 90 + 60), (laptop, 1 + 60)):
        bucket, accesses = buckets(deployment)
        logs_days = deployment.config.retention.logs_days
        rules = bucket["LifecycleConfiguration"]["Rules"]
        files_days = deployment.config.retention.files_days + 14
        assert {
            "payloads/": days,
            "results/": days,
            "output/": logs_days,
            "files/": files_days,
            "outputs/": days,
            "exports/": deployment.config.retention.exports_days,
        } == {rule["Prefix"]: rule["ExpirationInDays"] for rule in rules}
        (rule,) = accesses["LifecycleConfiguration"]["Rules"]
        assert logs_days == rule["ExpirationInDays"]
        for each in (*rules, rule):
            assert ({"DaysAfterInitiation": 1}, "Enabled") == (
                each["AbortIncompleteMultipartUpload"],
                each["Status"],
            )


def test_all_tables_but_output_can_be_restored_to_a_point_in_time(production: Deployment) -> None:
    found = {
        name: table["PointInTimeRecoverySpecification"]["PointInTimeRecoveryEnabled"]
        for name, table in tables(production).items()
    }
    assert {"joblane-output"} == {name for name, enabled in found.items() if not enabled}


def test_who_reads_a_submission_is_logged(production: Deployment) -> None:
    payloads, _ = buckets(production)
    (target,) = [
        logical_id
        for logical_id, bucket in production.resources("AWS::S3::Bucket").items()
        if resolve(bucket["Properties"]["BucketName"]).endswith("-log")
    ]
    assert payloads["LoggingConfiguration"]["DestinationBucketName"] == {"Ref": target}


def test_resolved_reads_what_it_claims() -> None:
    value = {"Fn::Join": ["", ["a", {"Ref": "AWS::Region"}, "b"]]}
    assert json.dumps(resolve(value)) == '"aeu-west-1b"'
