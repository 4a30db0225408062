"""The fleet stack: instances without inbound access that install their agent themselves."""

import hashlib
import json
import re
from pathlib import Path
from typing import Any

from infra.agent_install import BootValues, Setup
from infra.config import load_config
from infra.fleet import FleetStack
from infra.limits import USER_DATA_BYTES
from joblane.config import Config
from joblane.config.software import MOST_PACKAGES
from scripts.smokes.account import DISK_GB, format_config
from tests.infra.conftest import SETUP
from tests.infra.synthesis import Deployment, empty_assets, new_app, read_templates
from tests.infra.templates import as_list, resolve

FLEET = "fleet-main"


def template_data(deployment: Deployment, stack: str = FLEET) -> dict[str, Any]:
    template = deployment.one("AWS::EC2::LaunchTemplate", stack)
    data: dict[str, Any] = template["LaunchTemplateData"]
    return data


def test_a_deployment_without_fleets_has_no_stack_for_one(
    production: Deployment, small: Deployment
) -> None:
    lanes = ("lanes", "lanes-2", "lanes-3", "lanes-4")
    stacks = (
        "data",
        *lanes,
        "identity",
        "api",
        "upkeep",
        "recovery",
        "projection",
        "observability",
    )
    core = {f"joblane-{stack}" for stack in stacks}
    assert core | {"joblane-network", "joblane-fleet-main"} == set(production.templates)
    assert core == set(small.templates)


def test_instances_guard_their_credentials(production: Deployment) -> None:
    assert (template_data(production)["MetadataOptions"]) == {
        "HttpTokens": "required",
        "HttpPutResponseHopLimit": 1,
    }


def test_volumes_are_encrypted_gp3(production: Deployment) -> None:
    (device,) = template_data(production)["BlockDeviceMappings"]
    assert tuple(
        device["Ebs"][key] for key in ("Encrypted", "VolumeType", "DeleteOnTermination")
    ) == (True, "gp3", True)


def test_a_data_volume_has_the_declared_size_and_is_encrypted(
    production: Deployment, others: Deployment
) -> None:
    root, data = template_data(others, "fleet-disk")["BlockDeviceMappings"]
    assert root == template_data(production)["BlockDeviceMappings"][0]
    assert data == {
        "DeviceName": "/dev/xvdb",
        "Ebs": {
            "DeleteOnTermination": True,
            "Encrypted": True,
            "VolumeSize": 200,
            "VolumeType": "gp3",
        },
    }
    document = others.one("AWS::SSM::Document", "fleet-disk")
    assert "volume_bytes=$((200 * 1073741824))" in json.dumps(document["Content"])


def test_the_image_is_resolved_when_an_instance_starts(production: Deployment) -> None:
    assert (
        template_data(production)["ImageId"]
        == "resolve:ssm:/aws/service/ami-amazon-linux-latest/al2023-ami-kernel-default-arm64"
    )


def test_an_image_is_an_id_or_what_a_parameter_contains_when_an_instance_starts(
    others: Deployment,
) -> None:
    assert "ami-0123456789abcdef0" == template_data(others, "fleet-disk")["ImageId"]
    assert "resolve:ssm:/images/golden-arm64" == template_data(others, "fleet-kept")["ImageId"]


def test_packages_and_setup_are_part_of_the_launch_template(
    production: Deployment, others: Deployment
) -> None:
    """So a change of them replaces the instances."""
    text = user_data(others, "fleet-disk")
    digest = hashlib.sha256(SETUP.encode()).hexdigest()
    assert "set -- 'ffmpeg-free' 'git'\n" in text
    assert f"echo '{digest}  '" in text
    bundle, setup = (arn.rpartition("/")[2] for arn in objects(others, "fleet-disk"))
    assert bundle.endswith(".zip")
    assert f"/{setup}" in json.dumps(template_data(others, "fleet-disk")["UserData"])
    assert SETUP == (others.folder / f"cdk.out/asset.{setup}").read_text(encoding="utf-8")
    # Other fleets' have neither, and their roles read their agent alone.
    assert 1 == len(objects(production, FLEET))
    assert {"set -- ", "setup=''"} <= set(user_data(production).splitlines())


def objects(deployment: Deployment, stack: str) -> list[str]:
    """ARNs of the objects that a fleet's role reads in the bucket of assets."""
    return [
        arn
        for policy in deployment.properties("AWS::IAM::Policy", stack)
        for statement in policy["PolicyDocument"]["Statement"]
        if "s3:GetObject" in as_list(statement["Action"])
        for resource in as_list(statement["Resource"])
        if "cdk-" in (arn := str(resolve(resource)))
    ]


def test_the_largest_software_fits_the_user_data() -> None:
    text = BootValues(
        document="d" * 80,
        agents_table="t" * 40,
        region="ap-southeast-99",
        packages=("p" * 100,) * MOST_PACKAGES,
        setup=Setup(f"s3://{'b' * 63}/{'0' * 64}.sh", "0" * 64),
    ).user_data()
    assert len(text.encode()) < USER_DATA_BYTES


def test_nothing_can_connect_in(production: Deployment) -> None:
    assert "SecurityGroupIngress" not in production.one("AWS::EC2::SecurityGroup")
    assert not production.resources("AWS::EC2::SecurityGroupIngress")
    assert "KeyName" not in template_data(production)


def test_the_network_costs_nothing_when_idle(production: Deployment) -> None:
    assert 2 == len(production.resources("AWS::EC2::Subnet", "network"))
    assert not production.resources("AWS::EC2::NatGateway")
    assert not production.resources("AWS::EC2::EIP")
    assert ["Gateway", "Gateway"] == [
        endpoint["VpcEndpointType"] for endpoint in production.properties("AWS::EC2::VPCEndpoint")
    ]


def test_the_parameters_of_the_network_name_its_vpc_and_its_subnets(
    production: Deployment,
) -> None:
    (vpc,) = production.resources("AWS::EC2::VPC", "network")
    subnets = production.resources("AWS::EC2::Subnet", "network")
    values = {
        parameter["Name"]: parameter["Value"]["Ref"]
        for parameter in production.properties("AWS::SSM::Parameter", "network")
    }
    assert vpc == values.pop("/joblane/network-vpc")
    assert {"/joblane/network-subnet1", "/joblane/network-subnet2"} == values.keys()
    assert set(subnets) == set(values.values())
    # There is no NAT gateway: an instance without a public address would reach nothing.
    for subnet in production.properties("AWS::EC2::Subnet", "network"):
        assert (True, {"Ref": vpc}) == (subnet["MapPublicIpOnLaunch"], subnet["VpcId"])


def test_fleets_share_a_vpc_and_have_each_a_security_group_that_lets_nothing_in(
    others: Deployment,
) -> None:
    assert 1 == len(others.resources("AWS::EC2::VPC"))
    assert not others.resources("AWS::EC2::SecurityGroupIngress")
    manifest = json.loads((others.folder / "cdk.out/manifest.json").read_text(encoding="utf-8"))
    for name in others.config.fleets:
        group = others.one("AWS::EC2::SecurityGroup", f"fleet-{name}")
        assert "SecurityGroupIngress" not in group
        parameters = others.templates[f"joblane-fleet-{name}"]["Parameters"]
        assert "/joblane/network-vpc" == parameters[group["VpcId"]["Ref"]]["Default"]
        subnets = others.one("AWS::AutoScaling::AutoScalingGroup", f"fleet-{name}")
        assert ["/joblane/network-subnet1", "/joblane/network-subnet2"] == [
            parameters[subnet["Ref"]]["Default"] for subnet in subnets["VPCZoneIdentifier"]
        ]
        dependencies = manifest["artifacts"][f"joblane-fleet-{name}"]["dependencies"]
        assert "joblane-network" in dependencies


def test_a_vpc_that_is_there_is_used_and_none_is_created(laptop: Deployment) -> None:
    assert not laptop.resources("AWS::EC2::VPC")
    assert not laptop.resources("AWS::EC2::Subnet")
    group = laptop.one("AWS::AutoScaling::AutoScalingGroup")
    assert ["subnet-00000000", "subnet-11111111"] == group["VPCZoneIdentifier"]
    assert "vpc-00000000" == laptop.one("AWS::EC2::SecurityGroup")["VpcId"]
    # Its subnets decide who has a public address, and it may be private.
    assert "NetworkInterfaces" not in template_data(laptop)


def test_the_group_has_the_declared_sizes_and_types_and_no_desired_size(
    production: Deployment,
) -> None:
    group = production.one("AWS::AutoScaling::AutoScalingGroup")
    policy = group["MixedInstancesPolicy"]

    assert (group["MinSize"], group["MaxSize"]) == ("0", "4")
    assert "DesiredCapacity" not in group  # the reconciler's; a deployment must not reset it
    assert [override["InstanceType"] for override in policy["LaunchTemplate"]["Overrides"]] == [
        "c7g.large",
        "c6g.large",
    ]
    assert policy["InstancesDistribution"]["OnDemandAllocationStrategy"] == "prioritized"
    assert {"Key": "joblane:fleet", "PropagateAtLaunch": True, "Value": "joblane-main"} in (
        group["Tags"]
    )


def test_no_fleet_has_spot_instances_unless_it_says_so(production: Deployment) -> None:
    group = production.one("AWS::AutoScaling::AutoScalingGroup")
    assert {
        "OnDemandAllocationStrategy": "prioritized",
        "OnDemandPercentageAboveBaseCapacity": 100,
    } == group["MixedInstancesPolicy"]["InstancesDistribution"]
    assert "CapacityRebalance" not in group


def test_spot_instances_are_those_that_ec2_reclaims_least_and_are_replaced_ahead(
    others: Deployment,
) -> None:
    group = others.one("AWS::AutoScaling::AutoScalingGroup", "fleet-spot")
    assert {
        "OnDemandAllocationStrategy": "prioritized",
        "OnDemandBaseCapacity": 2,
        "OnDemandPercentageAboveBaseCapacity": 20,
        "SpotAllocationStrategy": "price-capacity-optimized",
    } == group["MixedInstancesPolicy"]["InstancesDistribution"]
    assert group["CapacityRebalance"] is True


def test_agents_end_instances_and_the_group_ends_none(production: Deployment, others: Deployment):
    group = production.one("AWS::AutoScaling::AutoScalingGroup")
    assert group["NewInstancesProtectedFromScaleIn"] is True
    # Of instances that were started before they were protected.
    assert group["MaxInstanceLifetime"] == 14 * 86_400
    document = json.dumps(production.one("AWS::SSM::Document")["Content"])
    assert " --idle-s 300 --max-instance-lifetime-days 14'" in document
    document = json.dumps(others.one("AWS::SSM::Document", "fleet-kept")["Content"])
    assert "--idle-s" not in document
    assert " --max-instance-lifetime-days 14'" in document


def user_data(deployment: Deployment, stack: str = FLEET) -> str:
    """The user data of a fleet's instances, with tokens as `<>`."""
    (_, parts) = template_data(deployment, stack)["UserData"]["Fn::Base64"]["Fn::Join"]
    return "".join(part if isinstance(part, str) else "<>" for part in parts)


def test_instances_install_by_their_user_data_what_state_manager_upgrades(
    production: Deployment,
) -> None:
    document = production.one("AWS::SSM::Document")
    association = production.one("AWS::SSM::Association")
    (logical_id,) = production.resources("AWS::SSM::Document")

    assert f"--name '{document['Name']}' --document-version '$LATEST'" in user_data(production)
    assert {"Ref": logical_id} == association["Name"]
    assert "$LATEST" == association["DocumentVersion"]
    # A document with a name of its own is changed in place, or the deployment fails.
    assert "NewVersion" == document["UpdateMethod"]


def test_the_association_runs_again_when_the_script_changes(production: Deployment) -> None:
    association = production.one("AWS::SSM::Association")
    content = production.one("AWS::SSM::Document")["Content"]
    assert content["parameters"].keys() == association["Parameters"].keys()
    assert "rate(30 minutes)" == association["ScheduleExpression"]


def test_nothing_installs_before_the_role_may_and_the_script_is_there(
    production: Deployment,
) -> None:
    policies = production.resources("AWS::IAM::Policy", FLEET)
    needed = set(production.resources("AWS::SSM::Document")) | set(policies)
    for kind in ("AWS::SSM::Association", "AWS::AutoScaling::AutoScalingGroup"):
        (resource,) = production.resources(kind).values()
        assert needed <= set(resource["DependsOn"])


def test_user_data_is_within_the_limit_and_every_place_has_a_value(production: Deployment) -> None:
    text = user_data(production)
    assert len(text.encode()) + 100 < USER_DATA_BYTES
    assert not re.search(r"@[A-Z_]+@", text)


def test_instances_get_new_kernels_and_changed_templates(production: Deployment) -> None:
    (group,) = production.resources("AWS::AutoScaling::AutoScalingGroup").values()
    assert 14 * 86_400 == group["Properties"]["MaxInstanceLifetime"]
    policy = group["UpdatePolicy"]
    assert {"AutoScalingInstanceRefresh"} == policy.keys() - {"AutoScalingScheduledAction"}
    assert {
        "Strategy": "Rolling",
        "Preferences": {
            "MinHealthyPercentage": 90,
            "MaxHealthyPercentage": 100,
            "InstanceWarmup": 120,
            "ScaleInProtectedInstances": "Refresh",
            "SkipMatching": False,
            "StandbyInstances": "Ignore",
        },
    } == policy["AutoScalingInstanceRefresh"]
    # The group follows the newest version, so that a changed template changes the group.
    template = group["Properties"]["MixedInstancesPolicy"]["LaunchTemplate"]
    version = template["LaunchTemplateSpecification"]["Version"]
    assert "LatestVersionNumber" == version["Fn::GetAtt"][1]


def part(percentage: str, instances: int, *, least: int) -> int:
    """A percentage of some instances, as State Manager counts: AWS does not say how it rounds."""
    return max(least, int(percentage.removesuffix("%")) * instances // 100)


def test_a_release_that_does_not_work_stops_and_an_instance_that_does_not_is_passed_over(
    production: Deployment,
) -> None:
    """State Manager stops when more than MaxErrors have failed; those in progress go on."""
    association = production.one("AWS::SSM::Association")
    for instances in range(1, 1001):
        errors = part(association["MaxErrors"], instances, least=0)
        reached = errors + part(association["MaxConcurrency"], instances, least=1)
        assert reached <= max(1, instances / 2)
        assert errors >= 1 or instances <= 3  # docs/how-to/run-agents.md


def test_state_manager_upgrades_the_fleets_instances(production: Deployment) -> None:
    association = production.one("AWS::SSM::Association")

    assert association["Targets"] == [{"Key": "tag:joblane:fleet", "Values": ["joblane-main"]}]
    (step,) = production.one("AWS::SSM::Document")["Content"]["mainSteps"]
    assert "aws:runShellScript" == step["action"]
    script = json.dumps(step["inputs"]["runCommand"])
    for needed in (
        "KillMode=process",
        "RestartKillSignal=SIGHUP",
        "OOMScoreAdjust=-1000",
        "Restart=on-failure",
        (
            "ExecStart=/bin/sh -c 'exec /opt/joblane/bin/joblane agent "
            '--name \\"$(cat /var/lib/cloud/data/instance-id)\\" '
            "--deployment joblane --fleet main --config /opt/joblane/agent.toml "
            "--queue default --threads 8 --isolation full "
            "--cgroup /sys/fs/cgroup/system.slice/joblane-jobs.service --max-memory-mb 3072 "
            "--idle-s 300 --max-instance-lifetime-days 14'"
        ),
        "s3://",
    ):
        assert needed in script


def test_an_instance_ends_when_its_agent_has_left(production: Deployment) -> None:
    hook = production.one("AWS::AutoScaling::LifecycleHook")
    assert (
        "joblane-leaving",
        "autoscaling:EC2_INSTANCE_TERMINATING",
        "CONTINUE",
        300,
    ) == (
        hook["LifecycleHookName"],
        hook["LifecycleTransition"],
        hook["DefaultResult"],
        hook["HeartbeatTimeout"],
    )


def test_the_smoke_test_changes_the_launch_template(production: Deployment, tmp_path: Path) -> None:
    """The first change of one is what failed in a real account (SkipMatching)."""
    fleets = []
    for size in (DISK_GB, DISK_GB + 1):
        file = tmp_path / f"{size}.toml"
        file.write_text(format_config("smoke-1", disk_gb=size), encoding="utf-8")
        fleets.append(load_config(file).fleets["main"])
    first, second = (
        volumes(production.config.model_copy(update={"fleets": {"main": fleet}}), tmp_path)
        for fleet in fleets
    )
    assert first != second


def volumes(config: Config, folder: Path) -> object:
    """Volumes of a fleet's instances."""
    size = config.fleets["main"].disk_gb
    app = new_app(folder / f"{size}.out")
    FleetStack(app, config, empty_assets(folder / f"{size}.assets"), "main")
    ((_, template),) = read_templates(Path(app.synth().directory))
    (found,) = (
        each["Properties"]["LaunchTemplateData"]["BlockDeviceMappings"]
        for each in template["Resources"].values()
        if each["Type"] == "AWS::EC2::LaunchTemplate"
    )
    return found
