"""A group at the fake API: members that a test lets end, pages as the API answers them."""

from typing import Any

from joblane.group.array import as_ranges, parse_ranges
from joblane.group.states import FAILURES, add_up, sentence, state_of
from joblane.state.lifecycle import ENDED, State
from tests.support.client.fake_api import FakeApi, Fault, Request, ok, problem

GROUP = "01JG"


class FakeGroup:
    """A group with one member for each of some agents; an array if `array` is its field."""

    def __init__(
        self,
        api: FakeApi,
        agents: list[str],
        target: str | None = "_all",
        array: dict[str, Any] | None = None,
    ) -> None:
        self.api, self.array = api, array
        self.members: list[dict[str, Any]] = [
            {
                "agent": agent,
                "index": index,
                "id": f"01JM{index}",
                "state": "pending",
                "reason": f"waits for a free slot of agent {agent}",
                "attempt": 0,
                "exit_code": None,
                "outcome": None,
                "result": None,
                "result_size": None,
                "output_files": None,
                "started_at": None,
                "ended_at": None,
            }
            for index, agent in enumerate(agents)
        ]
        target = target if array is None else None
        fields = {"target": target, "array": array, "members": len(agents)}
        self.job = api.add(GROUP, **fields, state="processing")
        self.pages: list[str] = []
        """Cursors of the pages that were read."""
        self.actions: list[Any] = []
        """Bodies of the requests that cancel or retry it."""
        self.submissions = False
        self.settle()
        self._others = api.more
        api.more = self.answer

    def take_submissions(self) -> None:
        """Let submissions become this group."""
        self.submissions = True

    @classmethod
    def of_array(cls, api: FakeApi, size: int, first: int = 0) -> "FakeGroup":
        """An array, whose members have run on one agent."""
        last = first + size - 1
        made = cls(api, ["web-1"] * size, array={"first": first, "last": last})
        for member in made.members:
            member["index"] += first
        return made

    def end(
        self,
        index: int,
        state: str = "completed",
        text: str = "",
        stderr: str = "",
        **fields: object,
    ) -> None:
        """Let a member end that has written `text`."""
        member = self.members[index]
        member |= {"state": state, "reason": f"it is {state}", **fields}
        if "started_at" not in fields:
            member |= {"started_at": "2026-11-21T02:00:00Z", "ended_at": "2026-11-21T02:00:01.5Z"}
            member |= {"exit_code": 0, **fields}
        job = self.api.add(str(member["id"]))
        if text:
            job.say(text)
        if stderr:
            job.say(stderr, "stderr")
        job.end(state)
        self.settle()

    def settle(self) -> None:
        """Compute the group's state."""
        ended = [m["state"] for m in self.members if m["state"] in ENDED]
        tally = add_up({State(state): 1} for state in ended)
        state = state_of(tally, len(self.members))
        said = sentence(tally, len(self.members)) if self.members else "no agent matches"
        self.job.data |= {"state": state, "reason": said if state in ENDED else "waits"}

    def answer(self, request: Request) -> Fault | None:
        """Answer the routes of the group."""
        path = f"/v1/groups/{GROUP}"
        if self.submissions and (request.method, request.path) == ("POST", "/v1/jobs"):
            return ok(self.job.data, 202)
        if request.path == f"/v1/jobs/{GROUP}/logs":
            return problem(409, "Conflict", detail=f"{GROUP} is a group")
        if request.path in {f"{path}/cancel", f"{path}/retry"}:
            self.actions.append(request.body)
            return self._sweep(request)
        if request.path != path:
            return self._others(request)
        cursor = request.query.get("next", "0")
        self.pages.append(cursor)
        start, limit = int(cursor), int(request.query["limit"])
        end = start + limit
        selected = self._select(request)
        shown = selected[start:end]
        results = (member["result"] for member in shown)
        changed = any(isinstance(each, dict) and each.get("changed") for each in results)
        page = {"group": self.job.data, "changed": changed, "entries": shown, "limit": limit}
        page |= {"kind": "broadcast" if self.array is None else "array", **self._counted(request)}
        return ok(page | {"next": str(end) if end < len(selected) else None})

    def _select(self, request: Request) -> list[dict[str, Any]]:
        states, indices = request.query.get("state"), request.query.get("indices")
        first = (self.array or {}).get("first", 0)
        numbers = None if indices is None else parse_ranges(indices, first + len(self.members))
        return [
            member
            for member in self.members
            if (states is None or member["state"] in states.split(","))
            and (numbers is None or member["index"] in numbers)
        ]

    def _counted(self, request: Request) -> dict[str, Any]:
        asked = request.query.get("counts", str("indices" not in request.query).lower())
        if "next" in request.query or asked == "false":
            return {"counts": None, "failed_indices": None}
        known = [member["state"] for member in self.members if member["state"] is not None]
        counts = add_up({State(state): 1} for state in known)
        failed = [member["index"] for member in self.members if member["state"] in FAILURES]
        return {"counts": counts, "failed_indices": as_ranges(failed)}

    def _sweep(self, request: Request) -> Fault:
        name = "cancelled" if request.path.endswith("cancel") else "retried"
        start = int(request.query.get("next", "0"))
        end = min(start + 100, len(self.members))
        answer = {"examined": end - start, name: end - start, "refused": []}
        return ok(answer | {"next": str(end) if end < len(self.members) else None})
