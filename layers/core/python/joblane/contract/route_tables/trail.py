"""The route of a tenant's audit trail."""

from typing import Final

from joblane.contract.audit import AuditPage
from joblane.contract.queries import AuditQuery
from joblane.contract.route import Route

TRAIL_ROUTES: Final = (
    Route(
        "listAudit",
        "GET",
        "/v1/audit",
        ("admin.read", "platform.read"),
        "Read the audit trail, newest first",
        AuditPage,
        query=AuditQuery,
    ),
)
