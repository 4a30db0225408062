"""The state machine of a condition, as data that its stack deploys and its tests interpret.

    Begin -> Wait -> Test -> Wait ...            still blocked
                       +---> Resubmit -> Wait    it holds, but not all jobs may go at once
                       |        +------> Done    the list is empty
                       +---> GiveUp  -> ...      their time is up, or it cannot be tested

Every step is one call of the recovery function, whose result is the state and names the next step;
the machine decides nothing. Imports no CDK, so that unit tests import it quickly.
"""

from typing import Any

RETRIES = 8
"""Retries of a step: after 2 s, 4 s, ... 256 s, in all 8.5 minutes. An execution that fails after
that is followed by a successor (the rule in `infra.recovery`)."""

STEP_TIMEOUT_S = 60
"""The function ends after 29 s; this limit applies when Lambda loses a call."""

Definition = dict[str, Any]


def definition(function_arn: str, partition: str = "aws") -> Definition:
    """Return the definition in Amazon States Language; both arguments may contain CDK tokens."""

    def step(name: str) -> Definition:
        return {
            "Type": "Task",
            "Resource": f"arn:{partition}:states:::lambda:invoke",
            "Parameters": {
                "FunctionName": function_arn,
                "Payload": {"do": name, "progress.$": "$"},
            },
            "OutputPath": "$.Payload",
            "TimeoutSeconds": STEP_TIMEOUT_S,
            "Retry": [
                {
                    "ErrorEquals": ["States.ALL"],
                    "IntervalSeconds": 2,
                    "BackoffRate": 2,
                    "MaxAttempts": RETRIES,
                }
            ],
            "Next": "Follow",
        }

    after = {"wait": "Wait", "resubmit": "Resubmit", "give_up": "GiveUp", "done": "Done"}
    return {
        "Comment": "Tests one condition while jobs wait for it",
        "StartAt": "Begin",
        "States": {
            "Begin": step("begin"),
            "Follow": {
                "Type": "Choice",
                "Choices": [
                    {"Variable": "$.next", "StringEquals": word, "Next": state}
                    for word, state in after.items()
                ],
                "Default": "Unknown",
            },
            "Wait": {"Type": "Wait", "SecondsPath": "$.delay_s", "Next": "Test"},
            "Test": step("test"),
            "Resubmit": step("resubmit"),
            "GiveUp": step("give_up"),
            "Done": {"Type": "Succeed"},
            "Unknown": {
                "Type": "Fail",
                "Error": "UnknownStep",
                "Cause": "The function returned an unknown step",
            },
        },
    }
