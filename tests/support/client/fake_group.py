"""A group at the fake API: members that a test lets end, pages as the API answers them."""

from typing import Any

from joblane.group.states import add_up, sentence, state_of
from joblane.state.lifecycle import ENDED, State
from tests.support.client.fake_api import FakeApi, Fault, Request, ok, problem

GROUP = "01JG"


class FakeGroup:
    """A group with one member for each of some agents."""

    def __init__(self, api: FakeApi, agents: list[str], target: str = "_all") -> None:
        self.api = api
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
                "started_at": None,
                "ended_at": None,
            }
            for index, agent in enumerate(agents)
        ]
        self.job = api.add(GROUP, target=target, members=len(agents), state="processing")
        self.pages: list[str] = []
        """Cursors of the pages that were read."""
        self.submissions = False
        self.settle()
        api.more = self.answer

    def take_submissions(self) -> None:
        """Let submissions become this group."""
        self.submissions = True

    def end(self, index: int, state: str = "completed", text: str = "", **fields: object) -> None:
        """Let a member end that has written `text`."""
        member = self.members[index]
        member |= {"state": state, "reason": f"it is {state}", **fields}
        if "started_at" not in fields:
            member |= {"started_at": "2026-11-21T02:00:00Z", "ended_at": "2026-11-21T02:00:01.5Z"}
            member |= {"exit_code": 0, **fields}
        job = self.api.add(str(member["id"]))
        if text:
            job.say(text)
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
            return self._sweep(request)
        if request.path != path:
            return None
        cursor = request.query.get("next", "0")
        self.pages.append(cursor)
        start, limit = int(cursor), int(request.query["limit"])
        end = start + limit
        shown = self.members[start:end]
        changed = any((member["result"] or {}).get("changed") for member in shown)
        page = {"group": self.job.data, "changed": changed, "entries": shown, "limit": limit}
        return ok(page | {"next": str(end) if end < len(self.members) else None})

    def _sweep(self, request: Request) -> Fault:
        name = "cancelled" if request.path.endswith("cancel") else "retried"
        start = int(request.query.get("next", "0"))
        end = min(start + 100, len(self.members))
        answer = {"examined": end - start, name: end - start, "refused": []}
        return ok(answer | {"next": str(end) if end < len(self.members) else None})
