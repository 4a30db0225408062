"""Links of the console to other systems: templates of URLs with placeholders. Pure."""

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, Final

from pydantic import AfterValidator, StringConstraints

PLACEHOLDERS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "job_id": "Id of the job",
        "tenant": "Tenant of the job",
        "type": "Job type; `command` for a job without a type",
        "queue": "Queue of the job",
        "agent": "Agent of the job's last attempt",
        "trace_id": "Trace id of the job's `traceparent`",
    }
)
"""What may stand in braces, and what the console puts there; it encodes the values."""

MOST_LINKS = 10
"""Links of a deployment."""

MOST_CHARS = 1000
"""Length of a template."""

_PLACEHOLDER = r"\{([^{}]*)\}"


def check_link(template: str) -> str:
    """Return a template of a URL. Raises ValueError that says what is wrong and what is allowed.

    The host must be fixed: else a job's type or name could choose where a link leads.
    """
    if len(template) > MOST_CHARS:
        raise ValueError(f"has {len(template)} characters; {MOST_CHARS} are allowed")
    if not re.match(r"https://|http://localhost[:/]", template):
        raise ValueError("must begin with https:// (or http://localhost)")
    host = r"https?://[A-Za-z0-9.-]+(:[0-9]+)?([/?#]|$)"
    if not re.match(host, template):
        raise ValueError("needs a fixed host after https://; placeholders can follow the first /")
    if not re.fullmatch(r"[!-~]*", template) or set(template) & set("\"'<>\\`"):
        raise ValueError("has a character that a URL has not; encode it with %")
    for name in re.findall(_PLACEHOLDER, template):
        if name not in PLACEHOLDERS:
            allowed = ", ".join(f"{{{each}}}" for each in PLACEHOLDERS)
            raise ValueError(f"has the unknown placeholder {{{name}}}; allowed are {allowed}")
    if set(re.sub(_PLACEHOLDER, "", template)) & {"{", "}"}:
        raise ValueError("has a brace without its other one")
    return template


LinkName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9 ._-]{0,39}$")]
"""Text of a link."""

LinkTemplate = Annotated[str, AfterValidator(check_link)]
"""A URL with placeholders."""
