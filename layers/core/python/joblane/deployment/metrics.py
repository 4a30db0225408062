"""Names of the custom metrics, which functions write and the stacks read."""

NAMESPACE = "Joblane"

OF_QUEUES = (
    *("Submitted", "Started", "Completed", "Failed", "Dead", "Retried"),
    *("WaitSeconds", "RunSeconds", "HandoverMs", "KeyRejected", "KeyCoalesced"),
)
"""Metrics by Deployment and Queue, from the function projector; HandoverMs from sequel, and
KeyRejected and KeyCoalesced from submission and admin."""

FAILED_JOBS = "FailedJobs"
"""Metric by Deployment and Queue, from the function projector at the levels basic and full: jobs
that ended failed or dead, members of groups with them. Written only when there is one."""

OF_FLEETS = (
    *("SlotsWanted", "Backlog", "SlotsBusy", "SlotsTotal", "AgentsAlive", "AgentsInTrouble"),
    *("CapacityShort", "ScalerBlind"),
)
"""Metrics by Deployment and Fleet, from the function scaler."""

OF_RENEWAL = ("Renewed", "FilesKept", "FilesMissing", "WithoutQueue", "GivenUp")
"""Metrics by Deployment, from the function requeue at the end of each pass of renewal, with
RenewalSeconds."""

REFUSED_SCHEDULES = "SchedulesRefused"
"""Metric by Deployment, from the function due at the levels basic and full: due times of schedules
whose submission was not accepted. Written only when there is one."""

PUBLIC_REQUESTS = "PublicRequests"
"""Metric by Deployment, from the API's access log: requests of routes that need no token."""

DIMENSIONS = 3
"""Dimensions of a metric, at most. Each combination of their values is a metric that is paid for:
never a job, an agent or a tenant."""
