"""Where a service of AWS is, and how it is spoken to, as botocore's client has it."""

import os
import ssl
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from botocore.httpsession import get_cert_path
from botocore.utils import get_environ_proxies

from ec2_agent.aws_calls.credentials import CredentialSource

if TYPE_CHECKING:
    from collections.abc import Mapping

    from botocore.client import ClientMeta
    from botocore.session import Session


class NotDirect(Exception):
    """This service is called through botocore only; the text says why."""


@dataclass(frozen=True, slots=True)
class AwsEndpoint:
    """One service that speaks AWS's JSON protocol."""

    host: str
    port: int
    authority: str
    """The `Host` header: with the port if it is not the scheme's own."""
    tls: ssl.SSLContext | None
    region: str
    service: str
    """Name in signatures."""
    target: str
    """What `X-Amz-Target` begins with."""
    content_type: str
    credentials: CredentialSource


def endpoint_of(meta: "ClientMeta", session: "Session") -> AwsEndpoint:
    """Read the endpoint of a client, which has this `meta`.

    Blocks: it may read files and ask for credentials.

    Raises NotDirect for what only botocore knows how to do: a proxy, a path, a signature of
    another kind, no credentials.
    """
    config: Any = meta.config  # its options are attributes that its types lack
    model: Mapping[str, Any] = meta.service_model.metadata
    url = urlsplit(meta.endpoint_url)
    if url.scheme not in ("http", "https") or url.hostname is None:
        raise NotDirect(f"its endpoint {meta.endpoint_url} is no web address")
    if url.path not in ("", "/") or url.query or url.username is not None:
        raise NotDirect(f"its endpoint {meta.endpoint_url} has a path, a query or a user")
    if config.proxies or get_environ_proxies(meta.endpoint_url):
        raise NotDirect("a proxy is configured")
    if config.client_cert is not None:
        raise NotDirect("a client certificate is configured")
    if config.signature_version != "v4":
        raise NotDirect(f"its signature is {config.signature_version}, not v4")
    if "json" not in model.get("protocols", [model["protocol"]]):
        raise NotDirect(f"its protocol is {model['protocol']}, not json")
    credentials = session.get_credentials()
    if credentials is None:
        raise NotDirect("there are no credentials")
    return AwsEndpoint(
        host=url.hostname,
        port=url.port or (443 if url.scheme == "https" else 80),
        authority=url.netloc,
        tls=_tls(session) if url.scheme == "https" else None,
        region=meta.region_name,
        service=meta.service_model.signing_name,
        target=model["targetPrefix"],
        content_type=f"application/x-amz-json-{model['jsonVersion']}",
        credentials=credentials,
    )


def _tls(session: "Session") -> ssl.SSLContext:
    """The system's own rules for TLS, with the authorities that botocore trusts."""
    chosen = session.get_config_variable("ca_bundle") or os.environ.get("REQUESTS_CA_BUNDLE")
    return ssl.create_default_context(cafile=chosen or get_cert_path(verify=True))
