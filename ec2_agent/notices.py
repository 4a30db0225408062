"""What the instance's metadata service says of the instance's end.

Asked every few seconds. Whatever goes wrong with it is no news: a laptop has no such service,
and an instance whose service stumbles goes on working.
"""

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

import urllib3
from urllib3.exceptions import HTTPError

from ec2_agent.calls import NoThread, in_thread
from ec2_agent.events import NoNotices
from ec2_agent.log_event import tell

DEFAULT_ENDPOINT = "http://169.254.169.254"

TIMEOUT_S = 0.5
"""Of each request; the service answers within a millisecond or two."""

ASK_EVERY_S = 5.0
"""AWS recommends to look for a spot notice every five seconds."""

SILENT_S = 60.0
"""Pause after a silence: where there is no such service, nobody should knock all day."""

SPOT_DRAIN_S = 75.0
"""Longest that running jobs go on after a spot notice.

The notice comes two minutes ahead: 5 s until it is read, these, 10 s of grace after SIGTERM,
10 s for the last output; 20 s are left for reports and what goes wrong with them.
"""

_TOKEN = "/latest/api/token"  # noqa: S105 - a path
_TOKEN_TTL_S = 21_600  # the longest there is
_SPOT = "/latest/meta-data/spot/instance-action"
_REBALANCE = "/latest/meta-data/events/recommendations/rebalance"
_LIFECYCLE = "/latest/meta-data/autoscaling/target-lifecycle-state"


class Kind(Enum):
    """Why an agent is to leave."""

    SPOT = "EC2 reclaims this spot instance"
    REBALANCE = "EC2 expects to reclaim this spot instance soon"
    SCALE_IN = "its Auto Scaling group ends this instance"


@dataclass(frozen=True, slots=True)
class Notice:
    """The end of this instance."""

    kind: Kind
    when: str | None = None
    """The time that EC2 gave, as it gave it."""

    def drain_s(self, usual_s: float) -> float:
        """How long running jobs may go on, where they usually have `usual_s`."""
        return usual_s if self.kind is Kind.SCALE_IN else min(usual_s, SPOT_DRAIN_S)

    def __str__(self) -> str:
        return self.kind.value + (f" at {self.when}" if self.when else "")


class Silence(Exception):
    """The service did not answer, or not as itself."""


class Metadata:
    """The instance metadata service, version 2."""

    def __init__(self, endpoint: str = DEFAULT_ENDPOINT) -> None:
        self._endpoint = endpoint.rstrip("/")
        self._http = urllib3.PoolManager(timeout=TIMEOUT_S, retries=False)
        self._token: str | None = None

    def notice(self) -> Notice | None:
        """Ask for the first notice that there is, the most urgent first. Raises Silence."""
        if (action := self._get(_SPOT)) is not None:
            return Notice(Kind.SPOT, _field(action, "time"))
        if self._get(_LIFECYCLE) == "Terminated":
            return Notice(Kind.SCALE_IN)
        if (recommended := self._get(_REBALANCE)) is not None:
            return Notice(Kind.REBALANCE, _field(recommended, "noticeTime"))
        return None

    def _get(self, path: str) -> str | None:
        """Read a path; None where the service has nothing to say."""
        if self._token is None:
            self._token = self._request(
                "PUT", _TOKEN, {"X-aws-ec2-metadata-token-ttl-seconds": str(_TOKEN_TTL_S)}
            )
        try:
            return self._request("GET", path, {"X-aws-ec2-metadata-token": self._token or ""})
        except Silence:
            self._token = None  # it may have expired
            raise

    def _request(self, method: str, path: str, headers: dict[str, str]) -> str | None:
        try:
            answer = self._http.request(
                method, self._endpoint + path, headers=headers, redirect=False
            )
        except HTTPError as error:
            raise Silence(type(error).__name__) from error
        match answer.status:
            case 200:
                return answer.data.decode("utf-8", "replace").strip()
            case 404 if method == "GET":
                return None
            case status:
                raise Silence(f"{status} for {path}")


def _field(text: str, name: str) -> str | None:
    try:
        value = json.loads(text)[name]
    except (ValueError, KeyError, TypeError):
        return None  # it is a notice all the same
    return value if isinstance(value, str) else None


async def watch(metadata: Metadata, on_notice: Callable[[Notice], None]) -> None:
    """Ask until cancelled; hand on each notice once, a more urgent one after another too."""
    handed_on: set[Kind] = set()
    answered = True
    while True:
        try:
            notice = await in_thread(metadata.notice, "metadata")
        except (Silence, NoThread) as silence:
            if answered:
                tell(NoNotices(str(silence)))
            answered = False
            await asyncio.sleep(SILENT_S)
            continue
        answered = True
        if notice is not None and notice.kind not in handed_on:
            handed_on.add(notice.kind)
            on_notice(notice)
        await asyncio.sleep(ASK_EVERY_S)
