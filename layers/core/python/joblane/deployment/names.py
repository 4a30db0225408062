"""Names of AWS resources, which the stacks, the functions and the agents share.

Not in `joblane.config`: every cold start of a function needs them, and its models take time.
"""

import re
from typing import Annotated, Final, Literal, cast

from pydantic import StringConstraints

AGENT_NAME_PATTERN = r"^[a-zA-Z0-9_-]{1,40}$"
"""An agent's name ends the name of its inbox, and SQS allows 80 characters in all."""

Lane = Literal["high", "default", "low"]
LANES: tuple[Lane, ...] = ("high", "default", "low")
"""Lanes of a queue, in the order in which an agent serves them."""

LanePath = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9-]{0,30}/(high|default|low)$")]
"""A lane and its queue: `default/high`."""

Architecture = Literal["arm64", "x86_64"]
"""CPU architecture of functions and instances."""

Name = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9-]{0,30}$")]
"""A deployment, queue, tenant or fleet: it becomes part of resource names, so it is short."""


def is_name(text: str) -> bool:
    """Whether a text is a `Name`."""
    return re.fullmatch(r"[a-z][a-z0-9-]{0,30}", text) is not None


PLATFORM: Final = "platform"
"""The role of the deployment, and the name that stands for a tenant where its holders act: in a
`Principal`, in queue settings and in the audit trail. No tenant has this name."""


TENANT_SHARES: Final = "#tenants"
"""Key of the shares of tenants' limits in the table `settings`; no queue has this name."""

AGENTS_SUMMARY: Final = "#agents"
"""Key of what the agents of each queue can give in the table `settings`; no queue has this name."""

RENEWAL: Final = "#renewal"
"""Key of how far the pass has come that sends messages of waiting jobs again, in the table
`settings`; no queue has this name."""

DECLARED_SCHEDULES: Final = "#schedules"
"""Key of which schedules joblane.toml declared at last, in the table `settings`; no queue has this
name."""

DIGEST: Final = "#digest"
"""Key of which daily digest was sent, in the table `settings`; no queue has this name."""

FLEET_RECORD: Final = "FLEET#"
"""What precedes a fleet's name in the key of its record in the table `settings`; no queue has such
a name."""

QUEUE_MOVE: Final = "MOVE#"
"""What precedes a retired queue's name in the key of how far its jobs have moved, in the table
`settings`; no queue has such a name."""


def table_name(deployment: str, table: str) -> str:
    """Name of a DynamoDB table: `joblane-jobs`."""
    return f"{deployment}-{table}"


KINDS: Final = ("lane", "inbox")
"""What follows the deployment's name in names of SQS queues of which there are many, a word for
each kind: a policy on `joblane-lane-*` reaches no inbox. No deployment has one in its name."""


def lane_name(deployment: str, queue: str, lane: Lane | Literal["*"]) -> str:
    """Name of the SQS queue behind one lane: `joblane-lane-default_high`.

    No queue has an underscore in its name: `joblane-lane-default_*` are the lanes of one queue, and
    none of `default-night`.
    """
    return f"{deployment}-lane-{queue}_{lane}"


def lane_path(queue: str, lane: Lane) -> LanePath:
    """A lane with its queue, as rows and messages name it: `default/high`."""
    return f"{queue}/{lane}"


def parse_lane_path(path: LanePath) -> tuple[str, Lane]:
    """Inverse of `lane_path`: the queue and the lane. Raises ValueError."""
    queue, _, name = path.partition("/")
    return queue, LANES[LANES.index(cast("Lane", name))]


def dead_letter_name(deployment: str) -> str:
    """Name of the dead-letter queue of all lanes: `joblane-dlq`."""
    return f"{deployment}-dlq"


def inbox_name(deployment: str, agent: str) -> str:
    """Name of the SQS queue with commands for one agent: `joblane-inbox-i-0123456789abcdef0`."""
    return f"{deployment}-inbox-{agent}"


def fleet_name(deployment: str, fleet: str) -> str:
    """Name of a fleet's Auto Scaling group, and of what belongs to it: `joblane-main`."""
    return f"{deployment}-{fleet}"


def fleet_stack_name(deployment: str, group: str) -> str:
    """Name of a fleet's stack, from that of its Auto Scaling group: `joblane-fleet-main`."""
    return f"{deployment}-fleet-{group.removeprefix(f'{deployment}-')}"


VARIABLES: Final = "variables.json"
"""File of a function's bundle with those of its variables that joblane.toml determines."""

FLEET_TAG: Final = "joblane:fleet"
"""Tag of a fleet's group and instances, by which State Manager finds them."""

DEPLOYMENT_TAG: Final = "joblane:deployment"
"""Tag of everything that a deployment consists of; its value is the deployment's name."""

LEAVING_HOOK = "joblane-leaving"
"""Lifecycle hook of every fleet's group: an instance is terminated once its agent has drained."""


def access_log_name(deployment: str) -> str:
    """Name of the log group with a line for each request to the API.

    Below /aws/vendedlogs no entry in the account's log resource policy is needed.
    """
    return f"/aws/vendedlogs/{deployment}/api"


def iam_log_name(deployment: str) -> str:
    """Name of the log group with a line for each request to the API for IAM roles."""
    return f"/aws/vendedlogs/{deployment}/iam-api"


def recovery_name(deployment: str) -> str:
    """Name of the recovery function, and of the state machine that calls it."""
    return f"{deployment}-recovery"


def scaler_name(deployment: str) -> str:
    """Name of the function that sizes fleets."""
    return f"{deployment}-scaler"


def recovery_rule_name(deployment: str) -> str:
    """Name of the EventBridge rule for failed executions of that machine."""
    return f"{recovery_name(deployment)}-failed"


def alternate_name(deployment: str) -> str:
    """Name of the SQS queue for events that nothing could route."""
    return f"{deployment}-alternate"


def due_name(deployment: str) -> str:
    """Name of the SQS queue of schedules that are due within minutes."""
    return f"{deployment}-due"


def notify_name(deployment: str) -> str:
    """Name of the SQS queue of notifications that wait to be delivered."""
    return f"{deployment}-notify"


def notify_dead_name(deployment: str) -> str:
    """Name of the SQS queue of notifications that could not be delivered."""
    return f"{deployment}-notify-dead"


def traces_name(deployment: str) -> str:
    """Name of the queue that feeds the span exporter."""
    return f"{deployment}-traces"


def traces_dead_name(deployment: str) -> str:
    """Name of the SQS queue of the same that could not be exported."""
    return f"{deployment}-traces-dead"


def exports_name(deployment: str) -> str:
    """Name of the SQS queue of ended jobs that wait to be exported."""
    return f"{deployment}-exports"


def exports_dead_name(deployment: str) -> str:
    """Name of the SQS queue of the same that could not be exported."""
    return f"{deployment}-exports-dead"


def topic_name(deployment: str) -> str:
    """Name of the SNS topic that notifies operators of dead letters."""
    return f"{deployment}-dead-letters"


def bucket_name(deployment: str, account: str, region: str) -> str:
    """Name of the S3 bucket of large submissions and output: `joblane-123456789012-us-east-1`.

    Bucket names are global and have at most 63 characters.
    """
    return f"{deployment}-{account}-{region}"


def access_log_bucket_name(deployment: str, account: str, region: str) -> str:
    """Name of the S3 bucket with the access log of that bucket."""
    return f"{bucket_name(deployment, account, region)}-log"


PAYLOADS: Final = "payloads/"
OUTPUT: Final = "output/"
RESULTS: Final = "results/"
BUNDLES: Final = "bundles/"
FILES: Final = "files/"
OUTPUTS: Final = "outputs/"
EXPORTS: Final = "exports/"
"""Prefixes of the objects in that bucket; the tenant follows. `output/` is what jobs print,
`outputs/` the files that they leave, and `exports/` the ended jobs of tenants that export them."""


def bundle_key(tenant: str, sha256: str) -> str:
    """Key of a bundle in that bucket: its name is its digest."""
    return f"{BUNDLES}{tenant}/{sha256}"


def file_key(tenant: str, sha256: str) -> str:
    """Key of an uploaded input file in that bucket: its name is its digest."""
    return f"{FILES}{tenant}/{sha256}"


def outputs_prefix(tenant: str, job_id: str, epoch: int | None = None) -> str:
    """What the keys of a job's output files begin with: of all attempts, or of one."""
    prefix = f"{OUTPUTS}{tenant}/{job_id}/"
    return prefix if epoch is None else f"{prefix}{epoch}/"


def output_key(tenant: str, job_id: str, epoch: int, path: str) -> str:
    """Key of an output file in that bucket. Up to 90 bytes precede the path."""
    return f"{outputs_prefix(tenant, job_id, epoch)}f/{path}"


def manifest_key(tenant: str, job_id: str, epoch: int) -> str:
    """Key of the list of an attempt's output files in that bucket."""
    return f"{outputs_prefix(tenant, job_id, epoch)}manifest"


def network_parameter(deployment: str, name: str) -> str:
    """Name of an SSM parameter with an id of the fleets' network: `/joblane/network-vpc`.

    One segment below the deployment's name: what has two is a tenant's.
    """
    return f"/{deployment}/network-{name}"


def api_parameter_name(deployment: str) -> str:
    """Name of the SSM parameter with the URL of the API, which notifications link to."""
    return f"/{deployment}/api-url"


def api_id_parameter_name(deployment: str) -> str:
    """Name of the SSM parameter with the id of the API, by which CloudWatch names its metrics."""
    return f"/{deployment}/api-id"


def iam_api_parameter_name(deployment: str) -> str:
    """Name of the SSM parameter with the id of the API for IAM roles, if there is one."""
    return f"/{deployment}/iam-api-id"


def descriptor_name(deployment: str) -> str:
    """Name of the SSM parameter with the `Descriptor`."""
    return f"/{deployment}/descriptor"


def sequel_name(deployment: str) -> str:
    """Return the name of the function that handles what follows the end of a job."""
    return f"{deployment}-sequel"


def sequel_mapping_parameter_name(deployment: str) -> str:
    """Return the name of the parameter with the id of the mapping by which sequel is called."""
    return f"/{deployment}/sequel-mapping"


def stream_parameter_name(deployment: str) -> str:
    """Name of the SSM parameter with the ARN of the jobs table's stream."""
    return f"/{deployment}/jobs-stream"
