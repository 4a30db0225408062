"""The part of the fake API that concerns files, and the storage behind its signed URLs."""

from base64 import b64decode, b64encode
from collections import deque
from hashlib import sha256
from threading import Lock
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, unquote

from tests.support.client.fake_api import FakeApi, Fault, Request, ok, problem

if TYPE_CHECKING:
    from collections.abc import Callable

BAD_DIGEST: Fault = (400, {}, b"<Error><Code>BadDigest</Code></Error>")
EXPIRED: Fault = (
    403,
    {},
    b"<Error><Code>AccessDenied</Code><Message>Request has expired</Message>",
)


class FakeFiles:
    """Answers what concerns files; everything else is the API's."""

    def __init__(self, api: FakeApi) -> None:
        self.api = api
        self.stored: dict[str, bytes] = {}
        """Content by digest."""
        self.puts: list[str] = []
        """Digests, in the order in which their content arrived."""
        self.outputs: list[dict[str, Any]] = []
        self.content: dict[str, bytes] = {}
        """Content of the outputs, by path."""
        self.about: dict[str, Any] = {"unmatched": [], "skipped": []}
        self.page = 100
        self.faults: deque[Fault] = deque()
        """Used up by the next transfers, one each."""
        self.before_put: Callable[[str], None] = lambda _digest: None
        self._lock = Lock()
        self.job: dict[str, Any] = {"id": "01J", "state": "completed"}
        """Whose files they are, unless the API knows it."""
        api.more = self.answer

    def leave(self, path: str, content: bytes, mode: str = "0644", **wrong: object) -> None:
        """Let a job have left a file; `wrong` replaces what the list says of it."""
        entry = {"path": path, "size": len(content), "sha256": digest(content), "mode": mode}
        self.outputs.append(entry | wrong)
        self.content[path] = content

    def answer(self, request: Request) -> Fault | None:
        """Answer one request."""
        parts = request.path.strip("/").split("/")
        match request.method, parts:
            case "POST", ["v1", "files"]:
                return ok({"files": [self._place(file) for file in request.body["files"]]})
            case "PUT", ["s3", name]:
                return self._put(name, request)
            case "GET", ["s3", "outputs", *path]:
                return self._fault() or (200, {}, self.content[unquote("/".join(path))])
            case "GET", ["v1", "jobs", _, "outputs"]:
                return self._list(request)
            case "GET", ["v1", "jobs", _, "outputs", *path]:
                return self._link("/".join(path))
        known = {f"/v1/jobs/{job_id}" for job_id in self.api.jobs}
        return ok(self.job) if request.path in {"/v1/jobs/01J"} - known else None

    def _link(self, path: str) -> Fault:
        """Redirect as the API does: API Gateway hands on paths decoded, but for `%25`."""
        once = unquote(path.replace("%25", "%2525")).partition("?")[0].replace("%25", "%")
        name = next((name for name in (once, unquote(once)) if name in self.content), None)
        if name is None:
            return problem(404, "Not Found", detail="the job has no such output file")
        return 302, {"Location": self._url(name)}, b""

    def _url(self, path: str) -> str:
        return f"{self.api.url}/s3/outputs/{quote(path)}"

    def _fault(self) -> Fault | None:
        with self._lock:
            return self.faults.popleft() if self.faults else None

    def _place(self, file: dict[str, Any]) -> dict[str, Any]:
        name = file["sha256"]
        if name in self.stored:
            return {"sha256": name, "exists": True, "upload": None}
        checksum = b64encode(bytes.fromhex(name)).decode()
        headers = {"x-amz-checksum-sha256": checksum}
        upload = {"url": f"{self.api.url}/s3/{name}", "headers": headers}
        return {"sha256": name, "exists": False, "upload": upload}

    def _put(self, name: str, request: Request) -> Fault:
        assert "Authorization" not in request.headers
        assert "Transfer-Encoding" not in request.headers
        self.before_put(name)
        if fault := self._fault():
            return fault
        content = request.body or b""
        wanted = {key.lower(): value for key, value in request.headers.items()}
        if sha256(content).digest() != b64decode(wanted["x-amz-checksum-sha256"]):
            return BAD_DIGEST
        with self._lock:
            self.stored[name] = content
            self.puts.append(name)
        return 200, {}, b""

    def _list(self, request: Request) -> Fault:
        at = int(request.query.get("next", "0"))
        rows = self.outputs[at : at + self.page]
        if request.query.get("links") == "true":
            rows = [row | {"url": self._url(str(row["path"]))} for row in rows]
        end = at + len(rows)
        after = str(end) if end < len(self.outputs) else None
        return ok({"entries": rows, "limit": self.page, "next": after, "epoch": 1, **self.about})


def digest(content: bytes) -> str:
    """SHA-256, hexadecimal."""
    return sha256(content).hexdigest()


def submitted(api: FakeApi) -> Any:
    """The body of the only submission."""
    (found,) = [each.body for each in api.requests if each.path == "/v1/jobs"]
    return found
