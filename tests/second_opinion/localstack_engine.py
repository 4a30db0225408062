"""Answers for LocalStack's engines of event patterns and of state machines, as a program.

It runs by the Python of .local/second-opinion-venv, and imports nothing of ours. A request is a
line of JSON on standard input, an answer a line on standard output:

    {"patterns": [...], "events": [...]}     whether each pattern lets each event pass
    {"definition": "...", "input": {...}}    {"status": ..., "history": [types of its events]}

While a state machine runs, an answer may be a question. Its answer is the next line of input:

    {"invoke": {...}}     a function's event; {"payload": ...} or {"error": "ValueError"}
    {"wait": 20}          so many seconds are to pass, in a Wait or before a retry; {}
"""

import json
import sys
from types import SimpleNamespace
from typing import Any

from localstack.services.stepfunctions.asl.component.common.retry import retrier_decl
from localstack.services.stepfunctions.asl.component.state.state_execution.state_task import (
    lambda_eval_utils,
)
from localstack.services.stepfunctions.asl.component.state.state_wait.wait_function import (
    wait_function,
)
from localstack.services.stepfunctions.asl.eval.evaluation_details import (
    AWSExecutionDetails,
    EvaluationDetails,
    ExecutionDetails,
    StateMachineDetails,
)
from localstack.services.stepfunctions.backend.execution_worker import SyncExecutionWorker
from localstack.utils.event_matcher import matches_event

ACCOUNT, REGION = "111122223333", "eu-west-1"
ROLE = f"arn:aws:iam::{ACCOUNT}:role/recovery"
STATES = f"arn:aws:states:{REGION}:{ACCOUNT}"
ANSWERS = sys.stdout


def say(answer: object) -> None:
    """Write a line."""
    print(json.dumps(answer), file=ANSWERS, flush=True)


def ask(question: object) -> Any:
    """Write a question and read its answer."""
    say(question)
    return json.loads(sys.stdin.readline())


def invoke(parameters: dict[str, Any], **_how: object) -> dict[str, Any]:
    """Stand for the call of a function by Lambda's API."""
    answer = ask({"invoke": json.loads(parameters["Payload"])})
    if "error" in answer:
        failed = {"errorType": answer["error"], "errorMessage": ""}
        return {"StatusCode": 200, "FunctionError": "Unhandled", "Payload": failed}
    return {"StatusCode": 200, "ExecutedVersion": "$LATEST", "Payload": answer["payload"]}


def wait(seconds: float) -> None:
    """Ask for time to pass, before a retry."""
    ask({"wait": seconds})


def wait_interval(_wait: object, env: object, wait_seconds: float) -> None:
    """Ask for the time of a Wait to pass."""
    wait(wait_seconds)


def execute(definition: str, given: object) -> dict[str, Any]:
    """Run an execution to its end."""
    name = "recovery"
    worker = SyncExecutionWorker(
        EvaluationDetails(
            AWSExecutionDetails(ACCOUNT, REGION, ROLE),
            ExecutionDetails(
                f"{STATES}:execution:{name}:1", "1", ROLE, given, "2026-01-01T00:00:00.000Z"
            ),
            StateMachineDetails(f"{STATES}:stateMachine:{name}", name, "STANDARD", definition),
        ),
        SimpleNamespace(terminated=lambda: None),
        None,
        {},
    )
    worker.start()
    events = worker.env.event_manager.get_event_history()
    history = [str(event["type"]) for event in events]
    return {"status": history[-1].removeprefix("Execution").upper(), "history": history}


def main() -> None:
    """Answer until the input ends."""
    sys.stdout = sys.stderr  # what LocalStack prints is no answer
    lambda_eval_utils._invoke_lambda_function = invoke  # calls AWS otherwise
    wait_function.WaitFunction._wait_interval = wait_interval
    retrier_decl.time = SimpleNamespace(sleep=wait)
    while line := sys.stdin.readline():
        request = json.loads(line)
        if "patterns" in request:
            patterns, events = request["patterns"], request["events"]
            say([[matches_event(pattern, event) for event in events] for pattern in patterns])
        else:
            say(execute(request["definition"], request["input"]))


if __name__ == "__main__":
    main()
