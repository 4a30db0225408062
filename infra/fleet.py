"""A fleet stack: an Auto Scaling group of instances that install and run the agent.

Instances have no inbound rule and no key pair; access is through Session Manager.
"""

import hashlib
from pathlib import Path
from typing import cast

from aws_cdk import Duration, Tags
from aws_cdk import aws_autoscaling as autoscaling
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_iam as iam
from aws_cdk import aws_s3_assets as s3_assets
from aws_cdk import aws_ssm as ssm
from constructs import Construct

from infra.agent_install import BootValues, Installation, Setup
from infra.agent_role import agent_role
from infra.assets import Assets, archive
from infra.network import fleet_network
from infra.policies import acknowledge
from infra.resources import JoblaneStack
from joblane.config import Config
from joblane.config.fleet import Fleet
from joblane.config.software import is_parameter
from joblane.deployment.names import FLEET_TAG, LEAVING_HOOK, fleet_name, table_name

ROOT_VOLUME_GB = 30

LEAVING_TIMEOUT = Duration.minutes(5)
"""Longest wait for a draining agent, in seconds; drains end within two minutes."""

WARM_UP = Duration.minutes(2)
"""Time that a refresh gives a new instance to install its agent before it replaces the next."""

UPGRADE_SCHEDULE = "rate(30 minutes)"
"""How often State Manager repeats the script; this is its shortest interval."""

_AMI = "/aws/service/ami-amazon-linux-latest/al2023-ami-kernel-default-{architecture}"


class FleetStack(JoblaneStack):
    """The instances of one fleet, their security group and role."""

    def __init__(self, scope: Construct, config: Config, assets: Assets, name: str) -> None:
        super().__init__(scope, config, f"fleet-{name}", f"the fleet {name}")
        fleet = config.fleets[name]
        full_name = fleet_name(config.name, name)
        vpc, subnets = self._network()
        zipped = archive(assets.agents[fleet.architecture])
        asset = s3_assets.Asset(self, "Agent", path=str(zipped.path))
        setup = self._setup(assets.setups.get(name))
        role = agent_role(self, name, asset, None if setup is None else setup[0])
        installation = Installation(
            deployment=config.name,
            fleet=name,
            queues=fleet.queues,
            threads=config.slots_of(name),
            allow_host_network=fleet.allow_host_network,
            egress_allow=fleet.egress_allow,
            egress_refuse=fleet.egress_refuse,
            egress_mbps=fleet.egress_mbps,
            max_memory_mb=fleet.max.memory_mb,
            disk_gb=fleet.disk_gb,
            labels=fleet.labels,
            etc=fleet.etc,
            facts=fleet.facts,
            state=fleet.state,
            release=asset.asset_hash,
            bundle_url=asset.s3_object_url,
            bundle_sha256=zipped.sha256,
            region=self.region,
            idle_s=None if fleet.idle_s == "never" else fleet.idle_s,
            max_instance_lifetime_days=fleet.max_instance_lifetime_days,
        )
        document = self._document(full_name, installation)
        template = self._template(full_name, fleet, vpc, role, None if setup is None else setup[1])
        group = autoscaling.AutoScalingGroup(
            self,
            "Group",
            auto_scaling_group_name=full_name,
            vpc=vpc,
            vpc_subnets=ec2.SubnetSelection(subnets=subnets),
            min_capacity=fleet.min_size,
            max_capacity=fleet.max_size,
            mixed_instances_policy=autoscaling.MixedInstancesPolicy(
                launch_template=template,
                launch_template_overrides=[
                    autoscaling.LaunchTemplateOverrides(instance_type=ec2.InstanceType(kind))
                    for kind in fleet.instance_types
                ],
                instances_distribution=_distribution(fleet),
            ),
            # A replacement boots while the agent of an instance at risk drains.
            capacity_rebalance=fleet.spot_percent > 0 or None,
            # Agents end instances; the group might end a busy one (decision 1711).
            new_instances_protected_from_scale_in=True,
            max_instance_lifetime=Duration.days(fleet.max_instance_lifetime_days),
            update_policy=autoscaling.UpdatePolicy.instance_refresh(
                strategy=autoscaling.InstanceRefreshStrategy.ROLLING,
                # A tenth at a time, at least one: it drains, ends, and only then is replaced, so
                # that a fleet at its largest size is refreshed as well.
                min_healthy_percentage=90,
                max_healthy_percentage=100,
                instance_warmup=WARM_UP,
                # By CloudFormation's default the refresh skips instances that have the template
                # already, and cannot start then: the image is a parameter (`resolve:ssm`).
                skip_matching=False,
                # The other values wait for an hour, and then fail the deployment.
                scale_in_protected_instances=autoscaling.ScaleInProtectedInstances.REFRESH,
                standby_instances=autoscaling.StandbyInstances.IGNORE,
            ),
        )
        group.add_lifecycle_hook(
            "Leaving",
            lifecycle_hook_name=LEAVING_HOOK,
            lifecycle_transition=autoscaling.LifecycleTransition.INSTANCE_TERMINATING,
            heartbeat_timeout=LEAVING_TIMEOUT,
            default_result=autoscaling.DefaultResult.CONTINUE,
        )
        Tags.of(group).add(FLEET_TAG, full_name)
        acknowledge(
            group,
            "AwsSolutions-AS3",
            "Scaling is seen in the agents table and in `joblane agents`; a notification for "
            "every instance that comes or goes would be noise.",
        )
        acknowledge(
            group,
            "AwsSolutions-EC26",
            "The rule cannot read block devices behind a launch template and throws; "
            "tests/infra asserts that the volume is encrypted.",
        )
        association = self._association(full_name, document, installation.fingerprint())
        # An instance installs while it boots, and State Manager does not repeat a failed run soon.
        for dependent in (group, association):
            dependent.node.add_dependency(role, document)

    def _network(self) -> tuple[ec2.IVpc, list[ec2.ISubnet]]:
        vpc_id, subnet_ids = fleet_network(self)
        vpc = ec2.Vpc.from_vpc_attributes(
            self,
            "Network",
            vpc_id=vpc_id,
            # Auto Scaling reads them from the subnets.
            availability_zones=[f"zone{n}" for n, _ in enumerate(subnet_ids)],
            public_subnet_ids=subnet_ids,
        )
        return vpc, vpc.public_subnets

    def _setup(self, file: Path | None) -> tuple[s3_assets.Asset, Setup] | None:
        """Upload a setup file, and say to instances where it is; None without one."""
        if file is None:
            return None
        asset = s3_assets.Asset(self, "Setup", path=str(file))
        sha256 = hashlib.sha256(file.read_bytes()).hexdigest()
        return asset, Setup(asset.s3_object_url, sha256)

    def _template(
        self, full_name: str, fleet: Fleet, vpc: ec2.IVpc, role: iam.Role, setup: Setup | None
    ) -> ec2.LaunchTemplate:
        closed = ec2.SecurityGroup(
            self,
            "Closed",
            vpc=vpc,
            description="Agents connect out; nothing connects in",
            allow_all_outbound=True,
        )
        newest = _AMI.format(architecture=fleet.architecture)
        ami = fleet.ami or newest
        parameter = ami if is_parameter(ami) else newest
        template = ec2.LaunchTemplate(
            self,
            "Template",
            launch_template_name=full_name,
            machine_image=ec2.MachineImage.resolve_ssm_parameter_at_launch(parameter),
            instance_type=ec2.InstanceType(fleet.instance_types[0]),
            role=role,
            security_group=closed,
            user_data=ec2.UserData.custom(
                BootValues(
                    document=document_name(full_name),
                    agents_table=table_name(self.config.name, "agents"),
                    region=self.region,
                    packages=fleet.packages,
                    setup=setup,
                ).user_data()
            ),
            # IMDSv2 needs a PUT, and its response has a hop limit of one: a job in a network
            # namespace of its own cannot reach the instance's credentials.
            require_imdsv2=True,
            http_put_response_hop_limit=1,
            block_devices=[
                _volume("/dev/xvda", ROOT_VOLUME_GB),
                *([] if fleet.disk_gb is None else [_volume("/dev/xvdb", fleet.disk_gb)]),
            ],
        )
        if not is_parameter(ami):
            # The CDK's images by id need the region, which is not known here.
            resource = cast("ec2.CfnLaunchTemplate", template.node.default_child)
            resource.add_property_override("LaunchTemplateData.ImageId", ami)
        return template

    def _document(self, full_name: str, installation: Installation) -> ssm.CfnDocument:
        return ssm.CfnDocument(
            self,
            "Installer",
            name=document_name(full_name),
            document_type="Command",
            document_format="JSON",
            target_type="/AWS::EC2::Instance",
            content=installation.document(),
            # A document with a name of its own cannot be replaced.
            update_method="NewVersion",
        )

    def _association(
        self, full_name: str, document: ssm.CfnDocument, fingerprint: str
    ) -> ssm.CfnAssociation:
        return ssm.CfnAssociation(
            self,
            "Upgrade",
            association_name=f"{full_name}-agent",
            name=document.ref,
            document_version="$LATEST",
            # An association that changes runs at once.
            parameters={"Fingerprint": [fingerprint]},
            targets=[ssm.CfnAssociation.TargetProperty(key=f"tag:{FLEET_TAG}", values=[full_name])],
            schedule_expression=UPGRADE_SCHEDULE,
            compliance_severity="HIGH",
            # A release whose agents do not work reaches half of the instances at most, and one
            # instance that fails does not keep the release from four others (decision 1221).
            max_concurrency="25%",
            max_errors="25%",
        )


def _distribution(fleet: Fleet) -> autoscaling.InstancesDistribution:
    """Which instances are on demand, and which types EC2 chooses."""
    spot = autoscaling.SpotAllocationStrategy.PRICE_CAPACITY_OPTIMIZED
    return autoscaling.InstancesDistribution(
        # joblane.toml lists the types in order of preference.
        on_demand_allocation_strategy=autoscaling.OnDemandAllocationStrategy.PRIORITIZED,
        on_demand_base_capacity=fleet.on_demand_base or None,
        on_demand_percentage_above_base_capacity=100 - fleet.spot_percent,
        spot_allocation_strategy=spot if fleet.spot_percent else None,
    )


def _volume(device: str, size_gb: int) -> ec2.BlockDevice:
    return ec2.BlockDevice(
        device_name=device,
        volume=ec2.BlockDeviceVolume.ebs(
            size_gb,
            encrypted=True,
            volume_type=ec2.EbsDeviceVolumeType.GP3,
            delete_on_termination=True,
        ),
    )


def document_name(full_name: str) -> str:
    """Name of the SSM document that installs a fleet's agents."""
    return f"{full_name}-agent"
