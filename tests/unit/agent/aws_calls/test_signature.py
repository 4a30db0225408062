"""Signatures of direct calls are those of botocore."""

import hmac
import random
import time

import pytest
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from ec2_agent.aws_calls.sign import Keys, Signer

AT = 1_795_000_000.0
DAY_S = 86_400
KEYS = Keys("AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY", None)
PASSING = Keys("ASIAIOSFODNN7EXAMPLE", "another", "a/session+token==")
GIVEN = [
    ("content-type", "application/x-amz-json-1.0"),
    ("host", "dynamodb.eu-central-1.amazonaws.com"),
    ("x-amz-target", "DynamoDB_20120810.UpdateItem"),
]


def botocores(keys: Keys, at: float, body: bytes, service: str) -> dict[str, str]:
    """The headers that botocore makes of the same request at the same time."""
    host = dict(GIVEN)["host"]
    request = AWSRequest("POST", f"https://{host}/", dict(GIVEN), body)
    request.context["timestamp"] = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(at))
    auth = SigV4Auth(
        Credentials(keys.access_key, keys.secret_key, keys.token), service, "eu-central-1"
    )
    # What add_auth does, with a time of ours in place of the host's.
    request.headers["X-Amz-Date"] = request.context["timestamp"]
    if keys.token is not None:
        request.headers["X-Amz-Security-Token"] = keys.token
    text = auth.string_to_sign(request, auth.canonical_request(request))
    inject = vars(SigV4Auth)["_inject_signature_to_request"]
    inject(auth, request, auth.signature(text, request))
    return {name.lower(): value for name, value in request.headers.items()}


@pytest.mark.parametrize("keys", [KEYS, PASSING])
@pytest.mark.parametrize("service", ["dynamodb", "sqs"])
@pytest.mark.parametrize("body", [b"", b"{}", '{"a":"ü"}'.encode(), bytes(range(256)) * 50])
def test_headers_are_those_of_botocore(keys: Keys, service: str, body: bytes):
    ours = dict(Signer("eu-central-1", service).headers(keys, AT, GIVEN, body))
    assert botocores(keys, AT, body, service) == ours


def test_a_kept_key_is_that_of_the_day_and_the_secret():
    signer, rng = Signer("eu-central-1", "sqs"), random.Random(17)
    for _ in range(100):
        keys = rng.choice([KEYS, PASSING])
        at = AT + rng.choice([-1, 0, 1]) * DAY_S + rng.random() * 1000
        assert botocores(keys, at, b"x", "sqs") == dict(signer.headers(keys, at, GIVEN, b"x"))


def test_the_key_of_a_day_is_made_once(monkeypatch: pytest.MonkeyPatch):
    made: list[bytes] = []
    digest = hmac.digest

    def counted(key: bytes, text: bytes, kind: str) -> bytes:
        made.append(text)
        return digest(key, text, kind)

    monkeypatch.setattr(hmac, "digest", counted)
    signer = Signer("eu-central-1", "sqs")
    for second in range(5):
        signer.headers(KEYS, AT + second, GIVEN, b"x")
    assert 4 + 5 == len(made)


def test_nobody_sees_secrets_in_the_text_of_keys():
    assert "another" not in repr(PASSING)
    assert "session" not in repr(PASSING)
