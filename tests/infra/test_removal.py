"""Production keeps its data when a stack is deleted; the local deployment does not."""

from tests.infra.synthesis import Deployment

HOLDS_DATA = {
    "AWS::DynamoDB::Table": 9,
    "AWS::S3::Bucket": 2,
    "AWS::SQS::Queue": 7,
    "AWS::Cognito::UserPool": 1,
    "AWS::Logs::LogGroup": 10,
}
"""Types that hold something of the user's, with how many production has of each."""


def test_production_retains_what_holds_data(production: Deployment) -> None:
    for kind, count in HOLDS_DATA.items():
        found = production.resources(kind)
        assert (kind, count) == (kind, len(found))
        for logical_id, resource in found.items():
            assert (logical_id, "Retain", "Retain") == (
                logical_id,
                resource["DeletionPolicy"],
                resource["UpdateReplacePolicy"],
            )


def test_production_guards_tables_and_users_against_deletion(production: Deployment) -> None:
    for table in production.properties("AWS::DynamoDB::Table"):
        assert table["DeletionProtectionEnabled"] is True
        recovers = table["PointInTimeRecoverySpecification"]["PointInTimeRecoveryEnabled"]
        assert recovers is (table["TableName"] != "joblane-output")  # which is only added to
    assert production.one("AWS::Cognito::UserPool")["DeletionProtection"] == "ACTIVE"


def test_a_laptop_deletes_everything(laptop: Deployment) -> None:
    seen = 0
    for template in laptop.templates.values():
        for logical_id, resource in template["Resources"].items():
            assert (logical_id, "Delete") == (
                logical_id,
                resource.get("DeletionPolicy", "Delete"),
            )
            seen += 1
    assert seen > sum(HOLDS_DATA.values())
    for table in laptop.properties("AWS::DynamoDB::Table"):
        assert table.get("DeletionProtectionEnabled", False) is False
    assert laptop.one("AWS::Cognito::UserPool")["DeletionProtection"] == "INACTIVE"
