"""The console in the API stack: a function that may do nothing, open routes, where to log in."""

import json

import boto3

from infra.assets import build_assets
from infra.config import load_config
from infra.console_files import read_console
from joblane.aws.files.signed_uploads import SIGNING, sign_upload
from tests.infra.synthesis import ROOT, Deployment
from tests.infra.templates import resolve


def test_its_function_is_small_and_may_do_nothing(production: Deployment, laptop: Deployment):
    for deployment, runtime, architecture in (
        (production, "python3.13", "arm64"),
        (laptop, "python3.11", "x86_64"),
    ):
        function = deployment.function("console")
        assert (runtime, [architecture], "handler.main", 128, 5) == (
            function["Runtime"],
            function["Architectures"],
            function["Handler"],
            function["MemorySize"],
            function["Timeout"],
        )
        assert {"Layers", "ReservedConcurrentExecutions", "LoggingConfig"}.isdisjoint(function)
        # Without a policy it cannot log: addresses of logins, which have a code, are in no log.
        role = function["Role"]["Fn::GetAtt"][0]
        assert {"AssumeRolePolicyDocument", "Description", "Tags"} == set(
            deployment.resources("AWS::IAM::Role")[role]["Properties"]
        )
        for kind in ("AWS::IAM::Policy", "AWS::IAM::ManagedPolicy"):
            assert {"Ref": role} not in [
                each for policy in deployment.properties(kind) for each in policy.get("Roles", ())
            ]


def test_its_page_connects_to_the_pool_and_its_login_page(production: Deployment):
    variables = production.environment("console")
    assert ["JOBLANE_CONNECT"] == list(variables)
    text = json.dumps(variables["JOBLANE_CONNECT"])
    assert 3 == text.count("https://")
    assert '"https://cognito-idp."' in text
    assert ".amazoncognito.com" in text


def test_its_page_connects_to_another_issuer_and_its_token_endpoint(varied: Deployment):
    connect = resolve(varied.environment("console")["JOBLANE_CONNECT"]).split(" ")
    assert ["https://id.acme.example", "https://token.acme.example:8443"] == connect[:-1]


def test_its_page_may_send_files_to_where_the_api_signs_uploads_for(production: Deployment):
    bucket = resolve(production.environment("admin")["JOBLANE_BUCKET"])
    session = boto3.Session("AKIA", "secret", region_name="eu-west-1")
    client = session.client("s3", config=SIGNING)
    upload = sign_upload(client, bucket, "files/acme/0", sha256="0" * 64, size=1, if_absent=False)
    connect = resolve(production.environment("console")["JOBLANE_CONNECT"])
    assert connect.split(" ")[-1] == upload.url.partition("/files/")[0]


def test_the_bucket_takes_files_of_a_page_of_the_console_only(
    production: Deployment, two_tenants: Deployment
):
    for deployment, origin in (
        (production, "https://*.execute-api.eu-west-1.amazonaws.com"),
        (two_tenants, "https://jobs.acme.example"),
    ):
        (rules,) = (
            bucket["CorsConfiguration"]["CorsRules"]
            for bucket in deployment.properties("AWS::S3::Bucket", "data")
            if "CorsConfiguration" in bucket  # the bucket of access logs has none
        )
        (rule,) = rules
        origins = [resolve(each) for each in rule["AllowedOrigins"]]
        assert {**rule, "AllowedOrigins": origins} == {
            "AllowedOrigins": [origin],
            "AllowedMethods": ["PUT"],
            "AllowedHeaders": ["x-amz-checksum-sha256"],
            "MaxAge": 3600,
        }


def test_people_come_back_to_the_console_of_their_api(production: Deployment):
    (api,) = production.resources("AWS::ApiGatewayV2::Api")
    (client,) = (
        each
        for each in production.properties("AWS::Cognito::UserPoolClient")
        if each["ClientName"] == "joblane-people"
    )
    *parts, path = client["CallbackURLs"][-1]["Fn::Join"][1]
    region, suffix = {"Ref": "AWS::Region"}, {"Ref": "AWS::URLSuffix"}
    assert ["https://", {"Ref": api}, ".execute-api.", region, ".", suffix] == parts
    assert "/console" == path
    assert client["LogoutURLs"] == client["CallbackURLs"][-1:]


def test_its_bundle_has_the_handler_and_the_files(production: Deployment):
    bundle = production.bundle("console")
    assert {"handler.py", "console.json", "files"} == {path.name for path in bundle.iterdir()}
    assert {"index.html", "app.js"} == set(
        json.loads((bundle / "console.json").read_text())["files"]
    )


def test_the_folder_that_is_deployed_is_the_one_of_the_repository():
    config = load_config(ROOT / "joblane.toml").model_copy(update={"fleets": {}})
    assets = build_assets(ROOT, config, {})
    assert ROOT / "console" == assets.console
    assert "index.html" in read_console(assets.console)
    assert (assets.functions / "console" / "handler.py").is_file()


def test_the_access_log_has_neither_queries_nor_tokens(production: Deployment):
    """A login ends at `/console?code=...`; the route's key is logged, not the path."""
    stage = production.one("AWS::ApiGatewayV2::Stage")
    logged = set(json.loads(stage["AccessLogSettings"]["Format"]).values())
    assert {
        "$context.requestTime",
        "$context.requestId",
        "$context.identity.sourceIp",
        "$context.routeKey",
        "$context.status",
        "$context.authorizer.claims.sub",
        "$context.error.message",
        "$context.authorizer.error",
        "$context.integrationErrorMessage",
        "$context.responseLatency",
        "joblane",
    } == logged
