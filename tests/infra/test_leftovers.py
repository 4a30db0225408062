"""Nothing that the stacks create makes something that `cdk destroy` would leave behind and cost."""

from tests.infra.synthesis import Deployment
from tests.infra.templates import as_list


def test_no_custom_resource_leaves_a_log_group(production: Deployment) -> None:
    for template in production.templates.values():
        for resource in template["Resources"].values():
            assert resource["Type"] != "AWS::CloudFormation::CustomResource"
            assert not resource["Type"].startswith("Custom::")


def test_each_function_has_its_log_group_or_none_and_may_create_no_other(
    production: Deployment,
) -> None:
    groups = production.resources("AWS::Logs::LogGroup")
    without = []
    for function in production.properties("AWS::Lambda::Function"):
        logs = function.get("LoggingConfig", {}).get("LogGroup")
        if logs is None:
            without.append(function["FunctionName"])
        else:
            assert logs["Ref"] in groups
    # Their roles may do nothing: decisions 0302 and 1501.
    assert ["joblane-console", "joblane-tester"] == sorted(without)
    for kind in ("AWS::IAM::Policy", "AWS::IAM::ManagedPolicy"):
        for policy in production.properties(kind):
            for statement in policy["PolicyDocument"]["Statement"]:
                assert "logs:CreateLogGroup" not in as_list(statement["Action"])


def test_volumes_end_with_their_instances_and_no_address_is_kept(production: Deployment) -> None:
    template = production.one("AWS::EC2::LaunchTemplate")["LaunchTemplateData"]
    for device in template["BlockDeviceMappings"]:
        assert device["Ebs"]["DeleteOnTermination"] is True
    assert not production.resources("AWS::EC2::EIP")
    assert not production.resources("AWS::EC2::NatGateway")
