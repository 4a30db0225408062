"""The recovery stack in this process: its table, its state machine, and who runs it."""

from joblane.aws.conditions import ConditionStore
from joblane.names import table_name
from tests.support.aws import NAME, Cloud

TABLE = table_name(NAME, "conditions")
MACHINE_ARN = f"arn:aws:states:us-east-1:123456789012:stateMachine:{NAME}-recovery"


def make(aws: Cloud) -> ConditionStore:
    """Add the recovery stack to a deployment in moto."""
    aws.clients.make("dynamodb").create_table(
        TableName=TABLE,
        BillingMode="PAY_PER_REQUEST",
        KeySchema=[
            {"AttributeName": "condition", "KeyType": "HASH"},
            {"AttributeName": "sk", "KeyType": "RANGE"},
        ],
        AttributeDefinitions=[
            {"AttributeName": "condition", "AttributeType": "S"},
            {"AttributeName": "sk", "AttributeType": "S"},
        ],
    )
    aws.clients.make("stepfunctions").create_state_machine(
        name=f"{NAME}-recovery",
        definition='{"StartAt": "Begin", "States": {"Begin": {"Type": "Succeed"}}}',
        roleArn="arn:aws:iam::123456789012:role/recovery",
    )
    return store(aws)


def store(aws: Cloud) -> ConditionStore:
    """The conditions of a deployment."""
    clients = aws.clients
    return ConditionStore(
        clients.make("dynamodb"), TABLE, clients.make("stepfunctions"), MACHINE_ARN
    )
