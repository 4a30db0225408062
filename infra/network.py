"""The network stack: one VPC, which all fleets of the deployment share.

There is none where `[network]` names a VPC. Other stacks read the ids from parameters, so that no
export ties the stacks together (see `infra.resources`).
"""

from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_ssm as ssm
from constructs import Construct

from infra.policies import acknowledge
from infra.resources import JoblaneStack
from joblane.config import Config
from joblane.deployment.names import network_parameter

SUBNETS = 2
"""One in each of two availability zones."""


class NetworkStack(JoblaneStack):
    """The VPC of the fleets.

    Its subnets are public, without a NAT gateway, which would cost more than a small fleet when
    idle.
    """

    def __init__(self, scope: Construct, config: Config) -> None:
        super().__init__(scope, config, "network", "the network of the fleets")
        vpc = ec2.Vpc(
            self,
            "Network",
            vpc_name=config.name,
            ip_addresses=ec2.IpAddresses.cidr("10.64.0.0/16"),
            max_azs=SUBNETS,
            nat_gateways=0,
            subnet_configuration=[
                ec2.SubnetConfiguration(
                    name="public", subnet_type=ec2.SubnetType.PUBLIC, cidr_mask=20
                )
            ],
            # Free, and traffic to the tables and the bundle stays off the public internet.
            gateway_endpoints={
                "Tables": ec2.GatewayVpcEndpointOptions(
                    service=ec2.GatewayVpcEndpointAwsService.DYNAMODB
                ),
                "Bundles": ec2.GatewayVpcEndpointOptions(
                    service=ec2.GatewayVpcEndpointAwsService.S3
                ),
            },
            # Emptying the default group needs a custom resource; nothing here uses that group.
            restrict_default_security_group=False,
        )
        acknowledge(
            vpc,
            "AwsSolutions-VPC7",
            "Nothing can connect in, and jobs have no network unless they ask: flow logs would "
            "cost more than the fleet's control plane. Switch them on by account policy.",
        )
        subnets = [subnet.subnet_id for subnet in vpc.public_subnets]
        for name, value in zip(places(), (vpc.vpc_id, *subnets), strict=True):
            ssm.StringParameter(
                self,
                name.capitalize(),
                parameter_name=network_parameter(config.name, name),
                string_value=value,
            )


def places() -> list[str]:
    """Names of the values: the VPC, and its subnets."""
    return ["vpc", *(f"subnet{n}" for n in range(1, SUBNETS + 1))]


def fleet_network(stack: JoblaneStack) -> tuple[str, list[str]]:
    """Return the ids of the VPC and of the subnets of a fleet: those of `[network]`, or tokens."""
    network = stack.config.network
    if network is not None:
        return network.vpc_id, list(network.subnets)
    kinds = ssm.ParameterValueType
    vpc_id, *subnets = (
        ssm.StringParameter.value_for_typed_string_parameter_v2(
            stack,
            network_parameter(stack.config.name, name),
            kinds.AWS_EC2_VPC_ID if name == "vpc" else kinds.AWS_EC2_SUBNET_ID,
        )
        for name in places()
    )
    return vpc_id, subnets
