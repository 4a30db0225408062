"""Renew what SQS and S3 would delete although a job waits for it: a pass each 4 days.

The pass walks the list of each tenant, the newest jobs first, and skips the ages between those that
are due (`joblane.job.renewal`). To jobs that may have a message it sends another one; of all that
have not ended it keeps files and submission. Members of a group come with their group.

    requeue                      settings                   lanes
    try 1 at A/none  -------->   A/none
    sends a page  ------------------------------------->    100 messages
    at A/01J...  ------------>   A/01J...
    (killed here)
    try 1 at A/01J...  ------>   A/01J...
    sends the page again, or for the first time  ------>    messages, perhaps twice
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from joblane.aws.files.kept_objects import Kept
from joblane.aws.job.groups import GroupStore
from joblane.aws.metrics import Metrics
from joblane.aws.queue.lanes import Lanes
from joblane.aws.queue.renewal import RenewalStore
from joblane.deployment.metrics import OF_RENEWAL
from joblane.errors import Changed, Unavailable
from joblane.group.record import PAGE
from joblane.job.head import DATA_DAYS, Head
from joblane.job.renewal import DAY_S, RenewalPass, begin_pass, is_data_due, is_due, next_due
from joblane.service.files.keep import FileKeeper
from joblane.service.job.wake_up import renewal_delay_s, send_wake_ups
from joblane.service.log import Log
from joblane.state.lifecycle import State

MOST_TRIES = 60
"""Runs that begin at one place before the pass goes on without what fails there: an hour, of the
day that it may take."""

RENEWED = OF_RENEWAL
"""Names of the counts of a pass, which are metrics too.

`Renewed`: messages that were sent. `FilesKept`: input files, and submissions in S3, that were
copied onto themselves. `FilesMissing`: those that are not there any more. `WithoutQueue`: jobs of
queues that joblane.toml or SQS does not have. `GivenUp`: jobs of which something could not be done
in `MOST_TRIES` runs.
"""

_OF_KEPT = {Kept.COPIED: "FilesKept", Kept.ABSENT: "FilesMissing"}


@dataclass(frozen=True, slots=True)
class _Page:
    """Jobs that are due, and where the walk goes on after them."""

    heads: Sequence[Head]
    tenant: str | None
    place: str | None


@dataclass(frozen=True)
class Renewal:
    """Makes the passes, each in as many runs as it takes."""

    passes: RenewalStore
    groups: GroupStore
    lanes: Lanes
    files: FileKeeper
    tenants: Sequence[str]
    queues: Mapping[str, object]
    """The queues that there are, by name."""
    metrics: Metrics
    deployment: str
    clock: Callable[[], float]
    log: Log

    def run(self, left_s: Callable[[], float]) -> Counter[str]:
        """Go on with a pass, or begin one if it is time, while `left_s` has seconds left.

        Returns what this run did, by `RENEWED`. Raises Unavailable; the next run goes on then.
        """
        now_ms = int(self.clock() * 1000)
        found = begin_pass(self.passes.get(), now_ms)
        done: Counter[str] = Counter()
        if found is None or left_s() <= 0:
            return done
        seen: set[str] = set()
        try:
            walk = self._write(replace(found, tries=found.tries + 1))
            if found.tenant is None:
                return done
            while walk.tenant is not None and left_s() > 0:
                after, counts = self._one_page(walk, seen, left_s)
                done += counts
                if after is walk:  # something failed: a minute later, again
                    break
                total = dict(Counter(walk.counts) + counts)
                walk = self._write(replace(after, counts=total))
        except Changed:  # another run goes on with the pass
            return done
        if walk.tenant is None:
            self._tell(walk)
        return done

    def _write(self, walk: RenewalPass) -> RenewalPass:
        after = replace(walk, version=walk.version + 1)
        self.passes.write(after)
        return after

    def _tell(self, walk: RenewalPass) -> None:
        """Log what a pass did that is over, and write its metrics."""
        seconds = round(self.clock() - walk.began_ms / 1000)
        self.log.info("messages of waiting jobs renewed", counts=dict(walk.counts), seconds=seconds)
        counts = {name: walk.counts.get(name, 0) for name in RENEWED}
        self.metrics.emit({"Deployment": self.deployment}, counts | {"RenewalSeconds": seconds})

    def _one_page(
        self, walk: RenewalPass, seen: set[str], left_s: Callable[[], float]
    ) -> tuple[RenewalPass, Counter[str]]:
        """Renew the jobs of a page, as many as there is time for; the pass after them.

        It is `walk` itself if something failed. After `MOST_TRIES` what fails is left out.
        """
        page, counts = self._page(walk), Counter[str]()
        last_try = walk.tries > MOST_TRIES
        handled: list[Head] = []
        for head in page.heads:
            if handled and left_s() <= 0 and head.member_of is None:
                break
            if not self._keep(head, walk, seen, counts):
                if not last_try:
                    break
                counts["GivenUp"] += 1
            handled.append(head)
        unsent = self._send(handled, counts)
        if last_try:
            counts["GivenUp"] += len(unsent)
        elif unsent or (page.heads and not handled):
            return walk, counts
        if len(handled) < len(page.heads):
            return walk.at(walk.tenant, handled[-1].job_id), counts
        return walk.at(page.tenant, page.place), counts

    # What is due

    def _page(self, walk: RenewalPass) -> _Page:
        """Read the jobs of a page: of a tenant's list, or members of a group."""
        tenant = walk.tenant or next(iter(sorted(self.tenants)), None)
        if tenant is None:
            return _Page((), None, None)
        place, _, number = (walk.place or "").partition(":")
        if number:
            return self._members(tenant, place, int(number))
        since_ms, now_ms = walk.since_ms, walk.began_ms
        below = place or next_due(None, since_ms, now_ms)
        ids, following = self.groups.newest_ids(tenant, limit=PAGE, before=below)
        heads = self.groups.heads([each for each in ids if is_due(each, since_ms, now_ms)])
        for count, head in enumerate(heads, 1):
            if head.group is not None and head.state is State.PROCESSING:
                return _Page(heads[:count], tenant, _next_page(head, 0))
        if following is None:
            return _Page(heads, self._after(tenant), None)
        return _Page(heads, tenant, next_due(following, since_ms, now_ms))

    def _after(self, tenant: str) -> str | None:
        """The tenant that follows; None after the last one."""
        return next((name for name in sorted(self.tenants) if name > tenant), None)

    def _members(self, tenant: str, group_id: str, page: int) -> _Page:
        """Read the members of a page of a group, which is in the list of its tenant."""
        head = self.groups.get(group_id)
        if head is None or head.group is None:
            return _Page((), tenant, group_id)
        numbers = [index for index in head.group.page(page) if index < head.group.begun]
        members = self.groups.heads([head.group.id_of(index) for index in numbers])
        return _Page(members, tenant, _next_page(head, page + 1))

    # What is done

    def _keep(self, head: Head, walk: RenewalPass, seen: set[str], counts: Counter[str]) -> bool:
        """Keep the files of a job, and its submission. False if AWS does not answer.

        Members have those of their group.
        """
        if head.ended or head.member_of is not None:
            return True
        now_s = self.clock()
        try:
            for what, number in self.files.keep(head, now_s, seen).items():
                if what in _OF_KEPT:
                    counts[_OF_KEPT[what]] += number
            if is_data_due(head.job_id, walk.since_ms, walk.began_ms, DATA_DAYS):
                self.groups.keep_data(head, int(now_s) + DATA_DAYS * DAY_S)
        except Unavailable:
            self.log.exception(
                "files of a waiting job could not be kept; next try in a minute",
                job_id=head.job_id,
                trace_id=head.trace_id,
            )
            return False
        return True

    def _send(self, heads: Sequence[Head], counts: Counter[str]) -> set[str]:
        """Send messages to jobs that may need one. Returns the ids of those that AWS refused."""
        now_ms, refused = int(self.clock() * 1000), set[str]()
        due = [
            (head, delay_s)
            for head in heads
            if (delay_s := renewal_delay_s(head, now_ms)) is not None
        ]
        for (queue, _), some in groupby(sorted(due, key=_lane), key=_lane):
            jobs = list(some)
            ids = {head.job_id for head, _ in jobs}
            if queue not in self.queues:
                counts["WithoutQueue"] += len(ids)
                continue
            try:
                unsent = send_wake_ups(self.lanes, jobs)
            except Unavailable:
                self.log.exception("messages could not be renewed; next try in a minute")
                refused |= ids
                continue
            counts["WithoutQueue"] += len(unsent.gone)
            counts["Renewed"] += len(ids) - len(unsent.all)
            refused |= unsent.refused
        return refused


def _lane(due: tuple[Head, int]) -> tuple[str, str]:
    return due[0].queue, due[0].lane


def _next_page(head: Head, page: int) -> str:
    """Where to go on with a group, from a page on; after it, below its own id."""
    later = [] if head.group is None else [each for each in head.group.open_pages if each >= page]
    return f"{head.job_id}:{later[0]}" if later else head.job_id
