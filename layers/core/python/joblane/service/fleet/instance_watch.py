"""Replace instances of fleets that have no agent: no heartbeat for ten minutes.

A row of the table `agents` tells since when. An instance without one gets a row, whose lease of 0 s
no reader takes for a live agent; the agent's first heartbeat replaces it:

    instance           agents table                            this service, every minute
    boots
                       row: no agent yet  <------------------  is in service and has no row
    fails its setup
    says why  ------>  row: failed its setup: ... (boot.sh)
                                          ------------------>  ten minutes after the boot: alarm;
                                                               unhealthy, so it is replaced

What replaces instances must not do so without bound. If the installation is broken, each new
instance has no agent either; if agents cannot reach the table, none has. So one in ten instances of
a group, at least one, is replaced at a time, and after that the group rests: 10 minutes, then twice
as long each time up to 6 hours, until an hour has passed in which nothing had to be replaced.
"""

import json
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from joblane.aws.fleet.agents import AgentStore
from joblane.aws.fleet.auto_scaling import AutoScalingGroup, AutoScalingGroups
from joblane.aws.table import ConditionFailed
from joblane.errors import Unavailable
from joblane.fleet.absence import absent
from joblane.service.log import Log
from joblane.state.lease import Heartbeat

SILENT_MS = 600_000
"""An instance is replaced when its agent's last heartbeat, or its boot, is this old."""

ONE_IN = 10
"""The part of a group that is replaced at a time."""

FIRST_REST_MS = 600_000
LONGEST_REST_MS = 6 * 3_600_000
"""Rests of a group after its first replacement, and at most."""

CALM_MS = 3_600_000
"""After this time beyond the rest without a replacement, the next rest is the first again."""

NEXT = (
    "joblane agents shows TROUBLE; aws ec2 get-console-output --latest has the output of the "
    "installation. To keep an instance for a look: aws autoscaling suspend-processes "
    "--scaling-processes ReplaceUnhealthy --auto-scaling-group-name GROUP"
)


def rest_ms(replacements: int) -> int:
    """How long a group rests after so many replacements in a row, in ms."""
    doubled: int = FIRST_REST_MS * 2 ** min(max(replacements - 1, 0), 10)
    return min(doubled, LONGEST_REST_MS) if replacements else 0


@dataclass(frozen=True)
class InstanceWatch:
    """Finds and replaces instances without an agent."""

    agents: AgentStore
    groups: AutoScalingGroups
    publish: Callable[[str, str], None]
    """Notifies operators: subject and text."""
    clock: Callable[[], float]
    log: Log

    def run(self) -> Counter[str]:
        """Look at every group once. Returns how many instances were `Silent`, `Replaced`, `Failed`.

        Requests: one for the groups, one for every hundred instances, and no write while all have
        their agents. Raises Unavailable when the groups cannot be read.
        """
        done = Counter[str]()
        now_ms = int(self.clock() * 1000)
        for group in self.groups.read_all():
            try:
                self._group(group, now_ms, done)
            except Unavailable:
                self.log.exception("a group could not be looked at", group=group.name)
                done["Failed"] += 1
        return done

    def _group(self, group: AutoScalingGroup, now_ms: int, done: Counter[str]) -> None:
        rows = {row.name: row for row in self.agents.many(group.instances)}
        for instance in group.instances:
            if instance not in rows:
                self.agents.note_absence(absent(instance, now_ms))
        silent = sorted(
            (row for row in rows.values() if now_ms - row.beat_ms >= SILENT_MS),
            key=lambda row: row.beat_ms,
        )
        done["Silent"] += len(silent)
        if silent and self._may_replace(group.name, now_ms):
            chosen = silent[: max(1, len(group.instances) // ONE_IN)]
            self._replace(group.name, chosen, len(silent), done)

    def _may_replace(self, group: str, now_ms: int) -> bool:
        """Whether the group has rested; then this is written down as its next replacement."""
        row = self.agents.replacements(group)
        if row is not None and now_ms - row.last_ms < rest_ms(row.count):
            return False
        calm = row is None or now_ms - row.last_ms >= rest_ms(row.count) + CALM_MS
        count = 1 if calm or row is None else row.count + 1
        # EventBridge may deliver an event twice, so two calls may look at a group at once:
        #
        #     call A                 agents table             call B
        #     reads 0:00  <--------  last 0:00  ----------->  reads 0:00
        #                            last 0:10  <-----------  writes 0:10 if last is 0:00
        #     writes 0:10 if last                             replaces instances
        #       is 0:00   -------->  refused
        #     replaces none
        try:
            self.agents.put_replacements(group, count, now_ms, before=row)
        except ConditionFailed:
            return False
        return True

    def _replace(
        self, group: str, chosen: list[Heartbeat], silent: int, done: Counter[str]
    ) -> None:
        for row in chosen:
            reason = row.trouble or "its agent has stopped"
            self.log.error("an instance has no agent", instance=row.name, reason=reason)
            try:
                self.groups.replace(row.name)
            except Unavailable:
                self.log.exception("an instance could not be replaced", instance=row.name)
                done["Failed"] += 1
            else:
                done["Replaced"] += 1
        text = {
            "group": group,
            "instances_without_agent": silent,
            "replaced": {row.name: row.trouble or "its agent has stopped" for row in chosen},
            "next": NEXT.replace("GROUP", group),
        }
        self.publish(
            f"Joblane: {silent} instance(s) of {group} without an agent",
            json.dumps(text, indent=2, ensure_ascii=False),
        )
