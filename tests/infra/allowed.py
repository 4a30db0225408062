"""What each role of a deployment may do: the table that its policies must equal."""

LANES = ("sqs:joblane-lane-*_*",)
DEAD_LETTERS = ("sqs:joblane-dlq",)
OWN_LANES = ("sqs:joblane-lane-default_*",)
INBOXES = ("sqs:joblane-inbox-*",)
JOBS = "dynamodb:table/joblane-jobs"
AUDIT = "dynamodb:table/joblane-audit"
AGENTS = "dynamodb:table/joblane-agents"
SETTINGS = "dynamodb:table/joblane-settings"
COUNTERS = "dynamodb:table/joblane-counters"
KEYS = "dynamodb:table/joblane-keys"
CONDITIONS = "dynamodb:table/joblane-conditions"
TYPES = "dynamodb:table/joblane-types"
MACHINE = "states:stateMachine:joblane-recovery"
OUTPUT = "dynamodb:table/joblane-output"
PAYLOADS = "s3:joblane-<>-<>/payloads/*"
BUNDLES = "s3:joblane-<>-<>/bundles/*"
OBJECTS_OF_OUTPUT = "s3:joblane-<>-<>/output/*"
RESULTS = "s3:joblane-<>-<>/results/*"
FILES = "s3:joblane-<>-<>/files/*"
OUTPUT_FILES = "s3:joblane-<>-<>/outputs/*"
LOG_DELIVERY = (
    "logs:CreateLogDelivery",
    "logs:DeleteLogDelivery",
    "logs:DescribeLogGroups",
    "logs:DescribeResourcePolicies",
    "logs:GetLogDelivery",
    "logs:ListLogDeliveries",
    "logs:PutResourcePolicy",
    "logs:UpdateLogDelivery",
)
ALTERNATE = "sqs:joblane-alternate"
DUE = "sqs:joblane-due"
PARAMETERS = "ssm:parameter/joblane/*"
SECRETS = "secretsmanager:secret:joblane/*"


def every(actions: tuple[str, ...], resources: tuple[str, ...]) -> set[tuple[str, str]]:
    return {(action, resource) for action in actions for resource in resources}


ALLOWED = {
    "Submission": every(("logs:CreateLogStream", "logs:PutLogEvents"), ("logs of Submission",))
    | every(
        (
            "dynamodb:PutItem",
            "dynamodb:GetItem",
            "dynamodb:BatchGetItem",
            "dynamodb:UpdateItem",
            "dynamodb:DeleteItem",
            "dynamodb:BatchWriteItem",
        ),
        (JOBS,),
    )
    | every(("dynamodb:Query",), (f"{JOBS}/index/by_tenant", f"{JOBS}/index/attention"))
    | every(("dynamodb:GetItem", "dynamodb:PutItem"), (KEYS,))
    | {("dynamodb:BatchGetItem", SETTINGS)}
    | every(("dynamodb:GetItem",), (COUNTERS, TYPES))
    | {("dynamodb:PutItem", AUDIT), ("dynamodb:Query", f"{AUDIT}/index/by_job")}
    | every(("sqs:SendMessage",), (*LANES, *INBOXES, DUE))
    | every(("dynamodb:BatchWriteItem", "dynamodb:Query"), (OUTPUT,))
    | every(("s3:DeleteObject", "s3:GetObject"), (OBJECTS_OF_OUTPUT, RESULTS))
    | every(("dynamodb:BatchGetItem", "dynamodb:GetItem", "dynamodb:Query"), (AGENTS,))
    | every(("s3:DeleteObject", "s3:GetObject", "s3:PutObject"), (PAYLOADS,))
    | {("s3:GetObject", FILES), ("s3:DeleteObject", OUTPUT_FILES)}
    | {("s3:ListBucket", "s3:joblane-<>-<>")},
    "Admin": every(("dynamodb:GetItem", "dynamodb:PutItem"), (KEYS,))
    | every(
        (
            "dynamodb:BatchGetItem",
            "dynamodb:GetItem",
            "dynamodb:PutItem",
            "dynamodb:UpdateItem",
        ),
        (TYPES,),
    )
    | {("dynamodb:BatchGetItem", KEYS), ("dynamodb:Query", f"{KEYS}/index/by_type")}
    | every(("s3:GetObject", "s3:PutObject"), (BUNDLES, FILES, PAYLOADS))
    | every(("dynamodb:GetItem", "dynamodb:Query", "dynamodb:UpdateItem"), (COUNTERS,))
    | {("cloudwatch:GetMetricData", "*")}
    | every(("logs:CreateLogStream", "logs:PutLogEvents"), ("logs of Admin",))
    | every(("dynamodb:Query",), (AGENTS, f"{JOBS}/index/by_tenant", f"{JOBS}/index/attention"))
    | every(("dynamodb:BatchGetItem", "dynamodb:GetItem"), (AGENTS,))
    | every(("dynamodb:PutItem", "dynamodb:Query"), (AUDIT,))
    | every(
        (
            "dynamodb:BatchGetItem",
            "dynamodb:GetItem",
            "dynamodb:PutItem",
            "dynamodb:UpdateItem",
        ),
        (JOBS,),
    )
    | every(("dynamodb:BatchGetItem", "dynamodb:GetItem", "dynamodb:PutItem"), (SETTINGS,))
    | every(
        ("dynamodb:BatchGetItem", "dynamodb:DeleteItem", "dynamodb:PutItem", "dynamodb:Query"),
        (CONDITIONS,),
    )
    | every(("sqs:SendMessage",), (*LANES, *INBOXES))
    | every(("sqs:GetQueueAttributes",), LANES),
    "Status": every(("logs:CreateLogStream", "logs:PutLogEvents"), ("logs of Status",))
    | every(("dynamodb:GetItem", "dynamodb:Query"), (AGENTS,))
    | every(("dynamodb:GetItem", "dynamodb:PutItem", "dynamodb:Query"), (COUNTERS,))
    | every(("dynamodb:GetItem",), (CONDITIONS, KEYS))
    | every(("dynamodb:BatchGetItem", "dynamodb:GetItem"), (JOBS,))
    | {("dynamodb:BatchGetItem", SETTINGS), ("s3:GetObject", OUTPUT_FILES)}
    | every(("sqs:GetQueueAttributes",), LANES)
    | every(
        ("autoscaling:DescribeAutoScalingGroups", "autoscaling:DescribeScalingActivities"), ("*",)
    ),
    "Recovery": every(("logs:CreateLogStream", "logs:PutLogEvents"), ("logs of Recovery",))
    | every(("dynamodb:GetItem", "dynamodb:UpdateItem"), (JOBS,))
    | every(
        (
            "dynamodb:DeleteItem",
            "dynamodb:GetItem",
            "dynamodb:Query",
            "dynamodb:UpdateItem",
        ),
        (CONDITIONS,),
    )
    | {("dynamodb:Query", AGENTS), ("states:StartExecution", MACHINE)}
    | {("lambda:InvokeFunction", "the function Tester")}
    | every(("sqs:SendMessage",), (*LANES, *INBOXES, ALTERNATE)),
    "Tester": set(),
    "Console": set(),
    "Machine": {("lambda:InvokeFunction", "the function Recovery")} | every(LOG_DELIVERY, ("*",)),
    "Requeue": every(("logs:CreateLogStream", "logs:PutLogEvents"), ("logs of Requeue",))
    | every(("dynamodb:Query",), (f"{JOBS}/index/wake", f"{JOBS}/index/by_tenant"))
    | {("dynamodb:Query", f"{KEYS}/index/waits")}
    | every(("s3:GetObject", "s3:PutObject"), (PAYLOADS, FILES))
    | every(("dynamodb:BatchGetItem", "dynamodb:GetItem", "dynamodb:Query"), (AGENTS,))
    | every(
        ("dynamodb:GetItem", "dynamodb:BatchGetItem", "dynamodb:PutItem", "dynamodb:UpdateItem"),
        (KEYS,),
    )
    | {("dynamodb:GetItem", TYPES)}
    | every(("dynamodb:BatchGetItem", "dynamodb:PutItem", "dynamodb:UpdateItem"), (SETTINGS,))
    | every(
        (
            "dynamodb:GetItem",
            "dynamodb:BatchGetItem",
            "dynamodb:BatchWriteItem",
            "dynamodb:PutItem",
            "dynamodb:UpdateItem",
        ),
        (JOBS,),
    )
    | {("dynamodb:DeleteItem", JOBS)}  # those of schedules: a condition says so
    | every(("sqs:SendMessage",), (*LANES, *INBOXES, ALTERNATE, DUE)),
    "Due": every(("logs:CreateLogStream", "logs:PutLogEvents"), ("logs of Due",))
    | every(
        (
            "sqs:ChangeMessageVisibility",
            "sqs:DeleteMessage",
            "sqs:GetQueueAttributes",
            "sqs:ReceiveMessage",
        ),
        (DUE,),
    )
    | every(("sqs:SendMessage",), (*LANES, *INBOXES, DUE))
    | every(
        (
            "dynamodb:BatchGetItem",
            "dynamodb:BatchWriteItem",
            "dynamodb:GetItem",
            "dynamodb:PutItem",
            "dynamodb:UpdateItem",
        ),
        (JOBS,),
    )
    | {("dynamodb:Query", f"{JOBS}/index/by_tenant")}
    | every(("dynamodb:GetItem", "dynamodb:PutItem"), (KEYS,))
    | every(("dynamodb:GetItem",), (COUNTERS, TYPES))
    | every(("dynamodb:BatchGetItem", "dynamodb:Query"), (AGENTS,))
    | every(("s3:GetObject", "s3:PutObject"), (PAYLOADS,))
    | {("s3:GetObject", FILES)},
    "Deadletter": every(("logs:CreateLogStream", "logs:PutLogEvents"), ("logs of Deadletter",))
    | every(("dynamodb:GetItem", "dynamodb:PutItem", "dynamodb:UpdateItem"), (JOBS,))
    | every(("sqs:SendMessage",), LANES)
    | every(
        ("sqs:DeleteMessage", "sqs:GetQueueAttributes", "sqs:ReceiveMessage"),
        (*DEAD_LETTERS, ALTERNATE),
    )
    | {("sns:Publish", "the topic"), ("ssm:GetParameter", "ssm:parameter/joblane/sequel-mapping")},
    "Instanceend": every(("logs:CreateLogStream", "logs:PutLogEvents"), ("logs of Instanceend",))
    | every(("dynamodb:DeleteItem", "dynamodb:GetItem", "dynamodb:UpdateItem"), (AGENTS,))
    | {("dynamodb:BatchGetItem", AGENTS)}
    | every(("dynamodb:GetItem", "dynamodb:UpdateItem"), (JOBS,))
    | {("sqs:ListQueues", "*")}
    | every(("sqs:DeleteQueue", "sqs:GetQueueAttributes"), INBOXES)
    | every(("sqs:SendMessage",), (*LANES, ALTERNATE)),
    "Instancewatch": every(
        ("logs:CreateLogStream", "logs:PutLogEvents"), ("logs of Instancewatch",)
    )
    | every(("dynamodb:BatchGetItem", "dynamodb:GetItem", "dynamodb:PutItem"), (AGENTS,))
    | {
        ("autoscaling:DescribeAutoScalingGroups", "*"),
        (
            "autoscaling:SetInstanceHealth",
            "autoscaling:autoScalingGroup:*:autoScalingGroupName/joblane-*",
        ),
        ("sns:Publish", "the topic"),
        ("sqs:SendMessage", ALTERNATE),
    },
    "Scaler": every(("logs:CreateLogStream", "logs:PutLogEvents"), ("logs of Scaler",))
    | every(("dynamodb:PutItem", "dynamodb:Query", "dynamodb:UpdateItem"), (AGENTS,))
    | every(("dynamodb:BatchGetItem", "dynamodb:GetItem", "dynamodb:PutItem"), (SETTINGS,))
    | every(("sqs:GetQueueAttributes",), LANES)
    | {
        ("autoscaling:DescribeAutoScalingGroups", "*"),
        ("autoscaling:DescribeScalingActivities", "*"),
        (
            "autoscaling:SetDesiredCapacity",
            "autoscaling:autoScalingGroup:*:autoScalingGroupName/joblane-*",
        ),
        ("sqs:SendMessage", ALTERNATE),
    },
    "Projector": every(("logs:CreateLogStream", "logs:PutLogEvents"), ("logs of Projector",))
    | every(
        ("dynamodb:DescribeStream", "dynamodb:GetRecords", "dynamodb:GetShardIterator"),
        ("the stream of jobs",),
    )
    | {("dynamodb:ListStreams", "*")}
    | every(("dynamodb:GetItem", "dynamodb:Query", "dynamodb:UpdateItem"), (COUNTERS,))
    | {
        ("sqs:SendMessage", ALTERNATE),
        ("lambda:InvokeFunction", "lambda:function:joblane-scaler"),
    },
    "Sequel": every(("logs:CreateLogStream", "logs:PutLogEvents"), ("logs of Sequel",))
    | every(
        ("dynamodb:DescribeStream", "dynamodb:GetRecords", "dynamodb:GetShardIterator"),
        ("the stream of jobs",),
    )
    | {("dynamodb:ListStreams", "*")}
    | every(("dynamodb:GetItem", "dynamodb:PutItem"), (KEYS,))
    | every(
        (
            "dynamodb:BatchGetItem",
            "dynamodb:GetItem",
            "dynamodb:PutItem",
            "dynamodb:UpdateItem",
        ),
        (JOBS,),
    )
    | every(("sqs:SendMessage",), (*LANES, *INBOXES, ALTERNATE)),
    "Agent": every(("dynamodb:GetItem", "dynamodb:UpdateItem"), (JOBS,))
    | every(
        ("dynamodb:DeleteItem", "dynamodb:GetItem", "dynamodb:PutItem"),
        (AGENTS,),
    )
    | every(
        (
            "sqs:ChangeMessageVisibility",
            "sqs:DeleteMessage",
            "sqs:ReceiveMessage",
            "sqs:SendMessage",
        ),
        OWN_LANES,
    )
    | every(
        (
            "sqs:ChangeMessageVisibility",
            "sqs:CreateQueue",
            "sqs:DeleteMessage",
            "sqs:ReceiveMessage",
        ),
        INBOXES,
    )
    | every(("dynamodb:GetItem", "dynamodb:PutItem", "dynamodb:UpdateItem"), (CONDITIONS,))
    | {("dynamodb:BatchGetItem", SETTINGS), ("dynamodb:GetItem", KEYS)}
    | {
        ("states:StartExecution", MACHINE),
        ("lambda:InvokeFunction", "lambda:function:joblane-recovery"),
    }
    | every(("sqs:SendMessage",), DEAD_LETTERS)
    | {("dynamodb:PutItem", OUTPUT), ("s3:PutObject", OBJECTS_OF_OUTPUT)}
    | {("s3:PutObject", RESULTS), ("s3:PutObject", OUTPUT_FILES)}
    | {
        ("ssm:GetParameter", PARAMETERS),
        ("secretsmanager:GetSecretValue", SECRETS),
        ("kms:Decrypt", "kms:key/*"),
        ("s3:GetObject", "the bundle"),
        ("s3:GetObject", PAYLOADS),
        ("dynamodb:GetItem", TYPES),
        ("s3:GetObject", BUNDLES),
        ("s3:GetObject", FILES),
        (
            "autoscaling:CompleteLifecycleAction",
            "autoscaling:autoScalingGroup:*:autoScalingGroupName/joblane-main",
        ),
        (
            "autoscaling:TerminateInstanceInAutoScalingGroup",
            "autoscaling:autoScalingGroup:*:autoScalingGroupName/joblane-main",
        ),
    },
}
"""Each role with the actions it may do and on what; an ARN is written service:resource."""
