"""S3, Step Functions, SNS, EventBridge and other services in memory, as far as tests need them."""

import base64
import hashlib
import io
import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from botocore.exceptions import ClientError

Parameters = dict[str, Any]


class Body(io.BytesIO):
    """What botocore gives to read an object."""

    def iter_chunks(self, size: int = 1024) -> Iterator[bytes]:
        """Read it piece by piece."""
        while data := self.read(size):
            yield data


@dataclass(frozen=True)
class _Object:
    content: bytes
    about: Parameters
    """What a HeadObject says of it."""


class S3:
    """A client of S3 with one bucket."""

    def __init__(self, clock: Callable[[], float]) -> None:
        """`clock` gives Unix seconds."""
        self._clock = clock
        self._objects: dict[str, _Object] = {}
        self._is_gone = False

    def delete_bucket(self, **_: Any) -> None:
        """Delete the empty bucket."""
        assert not self._objects
        self._is_gone = True

    def put_object(self, **request: Any) -> None:
        """Store an object. Raises ClientError: it does not have the digest that was given."""
        if self._is_gone:
            raise _refusal("NoSuchBucket", "PutObject")
        body = request.get("Body", b"")
        content = body if isinstance(body, bytes) else body.read()  # botocore has made it a file
        digest = base64.b64encode(hashlib.sha256(content).digest()).decode()
        about: Parameters = {"ContentType": "binary/octet-stream"} | {
            name: request[name]
            for name in ("ChecksumSHA256", "ContentType", "ContentDisposition")
            if name in request
        }
        if about.get("ChecksumSHA256", digest) != digest:
            raise _refusal("BadDigest", "PutObject")
        if request.get("ChecksumAlgorithm") == "SHA256":
            about["ChecksumSHA256"] = digest
        self._objects[request["Key"]] = _Object(
            content,
            {
                **about,
                "ContentLength": len(content),
                "LastModified": self._now(),
                "ETag": f'"{hashlib.md5(content, usedforsecurity=False).hexdigest()}"',
            },
        )

    def _now(self) -> datetime:
        return datetime.fromtimestamp(self._clock(), UTC)

    def copy_object(self, **request: Any) -> Parameters:
        """Copy an object onto itself, which takes a header that is given anew."""
        key = request["Key"]
        assert request["CopySource"] == f"{request['Bucket']}/{key}"
        if request.get("MetadataDirective") != "REPLACE":
            raise _refusal("InvalidRequest", "CopyObject")
        if key not in self._objects:
            raise _refusal("NoSuchKey", "CopyObject")
        found = self._objects[key]
        kept = {n: v for n, v in found.about.items() if n not in ("ContentType", "LastModified")}
        about = {**kept, "ContentType": request["ContentType"], "LastModified": self._now()}
        self._objects[key] = _Object(found.content, about)
        return {}

    def expire(self, days: Mapping[str, int]) -> None:
        """Delete objects as the rules of a lifecycle say: so many days after they were written."""
        for prefix, number in days.items():
            until = self._now() - timedelta(days=number)
            for key, found in list(self._objects.items()):
                if key.startswith(prefix) and found.about["LastModified"] <= until:
                    del self._objects[key]

    def get_object(self, **request: Any) -> Parameters:
        """Read an object."""
        if request["Key"] not in self._objects:
            raise _refusal("NoSuchKey", "GetObject")
        found = self._objects[request["Key"]]
        return {**self._about(found, request), "Body": Body(found.content)}

    def head_object(self, **request: Any) -> Parameters:
        """Say what an object is."""
        if request["Key"] not in self._objects:
            raise _refusal("404", "HeadObject")
        return self._about(self._objects[request["Key"]], request)

    def _about(self, found: _Object, request: Parameters) -> Parameters:
        wants_digest = request.get("ChecksumMode") == "ENABLED"
        return {n: v for n, v in found.about.items() if n != "ChecksumSHA256" or wants_digest}

    def list_objects_v2(self, **request: Any) -> Parameters:
        """A page of the objects whose keys begin so."""
        keys = sorted(key for key in self._objects if key.startswith(request.get("Prefix", "")))
        page = keys[: request.get("MaxKeys", 1000)]
        found = [{"Key": key, "Size": len(self._objects[key].content)} for key in page]
        contents = {"Contents": found} if found else {}
        return {**contents, "KeyCount": len(page), "IsTruncated": len(page) < len(keys)}

    def delete_object(self, **request: Any) -> None:
        """Delete an object; one that is not there is no error."""
        self._objects.pop(request["Key"], None)

    def delete_objects(self, **request: Any) -> None:
        """Delete many objects, whose names are sent in XML."""
        names = "".join(each["Key"] for each in request["Delete"]["Objects"])
        if re.search("[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]", names):
            raise _refusal("MalformedXML", "DeleteObjects")
        for each in request["Delete"]["Objects"]:
            self.delete_object(**each)


class StepFunctions:
    """A client of Step Functions: keeps executions, and refuses names that are taken."""

    def __init__(self, executions: dict[str, str]) -> None:
        self._executions = executions

    def start_execution(self, **request: Any) -> Parameters:
        """Start an execution; the same name with the same input is no error while it runs."""
        name = request["name"]
        if self._executions.setdefault(name, request["input"]) != request["input"]:
            raise _refusal("ExecutionAlreadyExists", "StartExecution")
        return {"executionArn": name}

    def list_executions(self, **_: Any) -> Parameters:
        """List all executions, newest first."""
        names = reversed(self._executions)
        return {"executions": [{"name": name, "executionArn": name} for name in names]}

    def describe_execution(self, **request: Any) -> Parameters:
        """The input of one execution."""
        name = request["executionArn"]
        return {"name": name, "input": self._executions[name]}


class Sns:
    """A client of SNS, to whose topics queues may subscribe."""

    def __init__(self, send: Callable[[str, str], None]) -> None:
        self._send = send
        self._queues: dict[str, list[str]] = {}
        """Names of the queues that hear what a topic says."""

    def create_topic(self, **_: Any) -> None:
        """Make a topic: all that are named are there."""

    def subscribe(self, **request: Any) -> None:
        """Let a queue hear what a topic says."""
        name = request["Endpoint"].rpartition(":")[2]
        self._queues.setdefault(request["TopicArn"], []).append(name)

    def publish(self, **request: Any) -> None:
        """Publish a message."""
        note: Parameters = {n: request[n] for n in ("Subject", "Message") if n in request}
        note["MessageAttributes"] = {
            name: {"Type": value["DataType"], "Value": value["StringValue"]}
            for name, value in request.get("MessageAttributes", {}).items()
        }
        for queue in self._queues.get(request["TopicArn"], ()):
            self._send(queue, json.dumps(note))


class Ssm:
    """A client of the Parameter Store."""

    def __init__(self, values: Mapping[str, str], clock: Callable[[], float]) -> None:
        self._values = {name: {"Name": name, "Value": value} for name, value in values.items()}
        self._clock = clock

    def put_parameter(self, **request: Any) -> None:
        """Set a parameter."""
        written = datetime.fromtimestamp(self._clock(), UTC)
        name, value = request["Name"], request["Value"]
        known: Parameters = {"Name": name, "Value": value, "LastModifiedDate": written}
        self._values[name] = known

    def get_parameter(self, **request: Any) -> Parameters:
        """Read a parameter."""
        if request["Name"] not in self._values:
            raise _refusal("ParameterNotFound", "GetParameter")
        return {"Parameter": self._values[request["Name"]]}


class SecretsManager:
    """A client of Secrets Manager."""

    def __init__(self) -> None:
        self._values: dict[str, Parameters] = {}

    def create_secret(self, **request: Any) -> None:
        """Create a secret."""
        self._values[request["Name"]] = {
            name: request[name] for name in ("SecretString", "SecretBinary") if name in request
        }

    def delete_secret(self, **request: Any) -> None:
        """Mark a secret for its deletion."""
        self._values[request["SecretId"]] = {}

    def get_secret_value(self, **request: Any) -> Parameters:
        """Read a secret."""
        found = self._values.get(request["SecretId"])
        if found is None:
            raise _refusal("ResourceNotFoundException", "GetSecretValue")
        if not found:
            raise _refusal("InvalidRequestException", "GetSecretValue")
        return found


class Events:
    """A client of EventBridge that nobody listens to."""

    def put_events(self, **request: Any) -> Parameters:
        """Put events."""
        entries = [{"EventId": str(number)} for number, _ in enumerate(request["Entries"])]
        return {"FailedEntryCount": 0, "Entries": entries}


class CloudWatch:
    """A client of CloudWatch, which has the figures that were put."""

    def __init__(self) -> None:
        self._figures: list[Parameters] = []

    def put_metric_data(self, **request: Any) -> None:
        """Put figures."""
        self._figures += request["MetricData"]

    def get_metric_data(self, **request: Any) -> Parameters:
        """Read figures by their dimensions."""
        results = []
        for query in request["MetricDataQueries"]:
            wanted = query["MetricStat"]["Metric"]["Dimensions"]
            found = [figure for figure in self._figures if figure["Dimensions"] == wanted]
            at = [datetime.fromtimestamp(figure["Timestamp"], UTC) for figure in found]
            values = [figure["Value"] for figure in found]
            results.append({"Id": query["Id"], "Values": values, "Timestamps": at})
        return {"MetricDataResults": results}


def _refusal(code: str, operation: str) -> ClientError:
    return ClientError({"Error": {"Code": code, "Message": f"{code} in memory"}}, operation)
