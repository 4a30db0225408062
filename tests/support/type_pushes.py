"""Types that are pushed by the API, and their bundles."""

import hashlib
from typing import Any

from joblane.aws.key.keys import KeyStore
from joblane.deployment.names import bundle_key
from joblane.key.segments import KeyName
from joblane.key.state import KeyState
from tests.support.aws import DESCRIPTOR, KEYS_TABLE, Cloud
from tests.support.requests import Api
from tests.support.types import described

ZIP = b"PK a bundle"
DIGEST = hashlib.sha256(ZIP).hexdigest()
KEY = {"segments": ["zendesk", "/origin"]}


def put_bundle(aws: Cloud, content: bytes = ZIP, tenant: str = "acme") -> str:
    digest = hashlib.sha256(content).hexdigest()
    key = bundle_key(tenant, digest)
    aws.clients.make("s3").put_object(Bucket=DESCRIPTOR.bucket, Key=key, Body=content)
    return digest


def body(**members: object) -> dict[str, Any]:
    return described(**{"bundles": {"arm64": DIGEST}, **members})


def push(api: Api, name: str = "sync-tickets", **members: object) -> Any:
    status, answer = api("PUT", f"/v1/types/{name}", body(**members))
    assert 200 == status, answer
    return answer


def push_refused(api: Api, name: str = "sync-tickets", **members: Any) -> dict[str, str]:
    status, problem = api("PUT", f"/v1/types/{name}", {**body(), **members})
    assert 400 == status, problem
    return {entry["field"]: entry["problem"] for entry in problem["errors"]}


def hold_a_key(aws: Cloud, name: str = "sync-tickets", *, queued: bool = False) -> KeyName:
    """A job of the type has a slot, or waits for one."""
    keys = KeyStore(aws.clients.make("dynamodb"), KEYS_TABLE)
    key = KeyName.of(name, ("zendesk", "acme"))
    seen = keys.get("acme", key, 1)
    state = KeyState(grants=1, queued=("J",)) if queued else KeyState(grants=1, active={"J": 1})
    keys.write(seen, state, 1)
    return key
