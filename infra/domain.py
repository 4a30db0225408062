"""The custom domain with mutual TLS."""

from aws_cdk import CfnOutput
from aws_cdk import aws_apigatewayv2 as apigatewayv2
from aws_cdk import aws_certificatemanager as acm
from aws_cdk import aws_s3 as s3
from constructs import Construct

from joblane.config.access import Domain


class MutualTls(Construct):
    """A domain that accepts clients with a certificate of an authority of the truststore.

    The execute-api endpoint of its API must be disabled: it asks for no certificate.
    """

    def __init__(self, scope: Construct, construct_id: str, *, domain: Domain) -> None:
        super().__init__(scope, construct_id)
        bucket, _, key = domain.truststore.removeprefix("s3://").partition("/")
        self.name = apigatewayv2.DomainName(
            self,
            "Name",
            domain_name=domain.name,
            certificate=acm.Certificate.from_certificate_arn(
                self, "Certificate", domain.certificate_arn
            ),
            security_policy=apigatewayv2.SecurityPolicy.TLS_1_2,
            mtls=apigatewayv2.MTLSConfig(
                bucket=s3.Bucket.from_bucket_name(self, "Truststore", bucket),
                key=key,
                version=domain.truststore_version,
            ),
        )
        CfnOutput(
            self,
            "Target",
            value=self.name.regional_domain_name,
            description=f"Target of the DNS record of {domain.name} (CNAME or alias)",
        ).override_logical_id("DomainTarget")
