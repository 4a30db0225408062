"""Makes each call to moto and to the memory, and compares the answers."""

import copy
import io
from collections import Counter
from collections.abc import Callable
from typing import Any

from botocore.exceptions import ClientError

from joblane.testing.memory.services import Body
from tests.support.aws import Cloud, OneEach, cloud_of, new_session
from tests.support.memory import Memory, operation_of

Answer = dict[str, Any]

COMPARED = {
    "dynamodb": ("Item", "Items", "Attributes", "Responses"),
    "sqs": ("Messages", "Failed", "QueueUrl"),
    "s3": ("Body", "Contents", "ContentLength", "ChecksumSHA256", "IsTruncated"),
    "stepfunctions": ("executions", "name", "input"),
    "sns": (),
}
"""The parts of an answer that the product reads; of a refusal its code, and the item with it.

Not LastEvaluatedKey: moto knows that a full page is the last one, as DynamoDB does not."""


class Mirror:
    """The clients of one deployment in moto, whose calls are all made to the memory too."""

    def __init__(self, clock: Callable[[], float] = lambda: 1_800_000_000.0) -> None:
        """`clock` is that of SQS in memory."""
        self.memory = Memory(clock)
        self.compared: Counter[str] = Counter()
        """How many answers of each operation were the same."""
        self.different: list[object] = []
        """Calls with both answers, where those differ; a function would survive an error."""
        self._receipts: dict[str, str] = {}
        """The memory's receipts, by those of moto."""

    def cloud(self) -> Cloud:
        """The deployment in moto, by clients whose calls are compared."""
        session = new_session()
        emitter = session.get_component("event_emitter")
        emitter.register("provide-client-params", _keep_parameters)
        emitter.register("after-call", self._compare)
        return cloud_of(lambda: session, OneEach(session))

    def _compare(self, model: Any, context: Answer, parsed: Answer, **_: Any) -> None:
        service, operation = operation_of(model)
        parameters = self._translate(context["mirrored"])
        if operation == "put_object":
            parameters["Body"] = io.BytesIO(parameters["Body"])
        try:
            ours = self.memory.call(service, operation, parameters)
        except ClientError as error:
            ours = {**error.response}
        if operation == "get_object" and "Body" in parsed:
            parsed["Body"] = Body(parsed["Body"].read())
        if operation == "receive_message":
            self._note_receipts(parsed, ours)
        if (theirs := _shown(service, parsed)) != (found := _shown(service, ours)):
            self.different.append((operation, parameters, theirs, found))
        self.compared[operation] += 1

    def _translate(self, parameters: Answer) -> Answer:
        found = copy.deepcopy(parameters)
        for each in (found, *found.get("Entries", ())):
            if "ReceiptHandle" in each:
                each["ReceiptHandle"] = self._receipts[each["ReceiptHandle"]]
        if "executionArn" in found:
            found["executionArn"] = found["executionArn"].rpartition(":")[2]
        return found

    def _note_receipts(self, theirs: Answer, ours: Answer) -> None:
        receipts = {message["Body"]: message["ReceiptHandle"] for message in ours["Messages"]}
        for message in theirs.get("Messages", []):
            self._receipts[message["ReceiptHandle"]] = receipts[message["Body"]]


def _keep_parameters(params: Answer, context: Answer, **_: Any) -> None:
    body = params.get("Body")
    if body is not None and hasattr(body, "read"):  # a file, which cannot be copied
        content = body.read()
        body.seek(0)
        context["mirrored"] = copy.deepcopy({**params, "Body": content})
    else:
        context["mirrored"] = copy.deepcopy(params)


def _shown(service: str, answer: Answer) -> Answer:
    """What is compared of an answer."""
    found = {name: answer[name] for name in COMPARED[service] if answer.get(name)}
    if "Error" in answer:
        found |= {"code": answer["Error"]["Code"], "item": answer.get("Item")}
    if "CancellationReasons" in answer:
        reasons = answer["CancellationReasons"]
        found["reasons"] = [(each["Code"], each.get("Item")) for each in reasons]
    if "Body" in found:
        found["Body"] = found["Body"].getvalue()
    if "Messages" in found:  # in any order, as SQS hands them out
        found["Messages"] = sorted(
            (message["Body"], message["Attributes"]["ApproximateReceiveCount"])
            for message in found["Messages"]
        )
    if "Contents" in found:
        found["Contents"] = [(entry["Key"], entry["Size"]) for entry in found["Contents"]]
    if "executions" in found:
        found["executions"] = {execution["name"] for execution in found["executions"]}
    return found
