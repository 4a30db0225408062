"""Following a group: which page of its members to read next, and which of them have ended. No I/O.

Only pages with members that have not ended are read again, one after the other, and then there is a
pause. What is kept is a cursor for each page, and the members that were shown of such pages.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from joblane.client import models
from joblane.client.answers import GroupPage, JobJson, MemberJson, member_ended
from joblane.client.calls import Call, Item, Stream
from joblane.client.follow import FollowPolicy, News, RepeatedCall, Runtime
from joblane.client.models import Job, Member
from joblane.state.lifecycle import ENDED

READ_AT_ONCE = 200
"""Members whose rows following a group reads a second, on average: a read unit each."""

MOST_OPEN = 1000
"""Members that run at once, at most; of the others no row is read."""

UNKNOWN = 100
"""Size of a group whose members are not chosen yet."""


def group_pace(members: int | None) -> FollowPolicy:
    """Intervals of following a group with so many members, None if not known yet.

    Each time the rows are read of all members of pages that are not done, so the interval grows
    with their number: 0.2 s up to 40 members, 5 s from 1,000 on. Without news it grows to 5 s.
    """
    size = UNKNOWN if members is None else min(members, MOST_OPEN)
    busy_s = max(0.2, size / READ_AT_ONCE)
    return FollowPolicy(busy_s=busy_s, idle_share=0.2, idle_max_s=5.0)


@dataclass(frozen=True, slots=True)
class GroupNews:
    """What was read of a group."""

    group: Job
    """The group's job."""
    ended: list[Member]
    """Members that have ended since they were read last, each once."""


@dataclass(slots=True)
class GroupReading:
    """Which page is next. Pages are numbered from 0."""

    cursors: list[str | None] = field(default_factory=lambda: [None])
    """Cursor of each page that is known of; that of the first is None."""
    over: set[int] = field(default_factory=set)
    """Pages whose members have all ended."""
    shown: dict[int, set[int]] = field(default_factory=dict)
    """Members that were shown as ended, of pages that are not over."""
    at: int | None = 0
    """The page to read next; None if all are over, and only the group's job is read."""
    last: bool = False
    """Whether the group had ended before this pass over its pages."""
    begins: bool = True
    """Whether the next page is the first one of a pass."""

    def take(self, page: GroupPage) -> tuple[GroupNews, News]:
        """Note an answer: what is new, and when to read on."""
        ended = page["group"]["state"] in ENDED
        if self.begins:
            self.last = ended
        if self.at is None:
            return GroupNews(Job(page["group"]), []), News(changed=ended, done=ended)
        new = self._new(self.at, page["entries"])
        if page.get("next") and self.at + 1 == len(self.cursors):
            self.cursors.append(page["next"])
        if all(map(member_ended, page["entries"])) and (page["entries"] or ended):
            self.over.add(self.at)
            self.shown.pop(self.at, None)
        following = None if self._none_begun(page) else self._first(self.at + 1)
        self.begins = following is None
        self.at = self._first(0) if following is None else following
        done = following is None and self.last
        news = News(changed=bool(new), more=following is not None, done=done)
        return GroupNews(Job(page["group"]), list(map(Member, new))), news

    def _new(self, number: int, members: list[MemberJson]) -> list[MemberJson]:
        shown = self.shown.setdefault(number, set())
        new = [each for each in members if member_ended(each) and each["index"] not in shown]
        shown.update(each["index"] for each in new)
        return new

    def _none_begun(self, page: GroupPage) -> bool:
        """Whether no member of a page has begun: then none of a later page has."""
        open_ = [member for member in page["entries"] if not member_ended(member)]
        return (
            not self.last
            and bool(open_)
            and all(member.get("id") is None for member in page["entries"])
        )

    def _first(self, number: int) -> int | None:
        """The first page from a number on that is not over."""
        left = (each for each in range(number, len(self.cursors)) if each not in self.over)
        return next(left, None)


class GroupPoll:
    """Reads a group again and again until it has ended and all its members were read.

    `read` reads the page at a cursor, `head` the group's job.
    """

    def __init__(
        self,
        read: Callable[[str | None], Call[GroupPage]],
        head: Callable[[], Call[JobJson]],
        policy: FollowPolicy,
        runtime: Runtime,
    ) -> None:
        self._read, self._head = read, head
        self._reading = GroupReading()
        self._found: GroupNews
        self._poll = RepeatedCall(self._ask, self._judge, policy, runtime)

    @property
    def done(self) -> bool:
        """Whether nothing more is to come."""
        return self._poll.done

    def news(self) -> Call[GroupNews]:
        """Return what the next answer has that is new."""
        yield from self._poll.answer()
        return self._found

    def _ask(self) -> Call[GroupPage]:
        at = self._reading.at
        if at is None:
            return {"group": (yield from self._head()), "entries": []}
        return (yield from self._read(self._reading.cursors[at]))

    def _judge(self, page: GroupPage) -> News:
        self._found, news = self._reading.take(page)
        return news


def follow_group(poll: GroupPoll) -> Stream[GroupNews]:
    """Yield what each answer has that is new."""
    while not poll.done:
        yield Item((yield from poll.news()))


def watch_group(
    read: Callable[[], Call[GroupPage]], policy: FollowPolicy, runtime: Runtime | None
) -> Stream[models.GroupPage]:
    """Yield each answer of `read` whose counts are new, and the first one of a group that ended."""
    seen: object = None
    changed = False

    def judge(page: GroupPage) -> News:
        nonlocal seen, changed
        known = (page["group"]["state"], page.get("counts"), page.get("failed_indices"))
        changed, seen = known != seen, known
        return News(changed=changed, done=page["group"]["state"] in ENDED)

    poll = RepeatedCall(read, judge, policy, runtime or Runtime())
    while not poll.done:
        page = yield from poll.answer()
        if changed:
            yield Item(models.GroupPage(page))
