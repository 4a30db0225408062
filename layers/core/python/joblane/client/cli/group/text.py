"""Groups as text: a table of members, one line of a member, and counts."""

import json
import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from joblane.client.answers import MemberJson
from joblane.client.cli.text.formats import duration, parse_time, plain, printable
from joblane.client.cli.text.tables import Screen, table
from joblane.formats.text import shorten
from joblane.group.states import sentence
from joblane.state.lifecycle import State

RESULT_CHARS = 60
"""Characters of a result in a table; `joblane results` shows all of it."""

_KNOWN = frozenset(State)


def name_of(member: MemberJson, *, array: bool) -> str:
    """What a member is called: in an array its index, else its agent."""
    return str(member["index"]) if array else plain(member.get("agent"))


def members_table(
    members: Sequence[MemberJson], now: datetime, screen: Screen, *, array: bool
) -> str:
    """Table of members, in the order given; in an array each has its index, too."""
    results = any(member.get("result") is not None for member in members)
    rows = [
        (
            *([member["index"]] if array else []),
            member.get("agent"),
            member.get("state"),
            member.get("exit_code"),
            run_time(member, now),
            member.get("id"),
            *([_result(member, RESULT_CHARS)] if results else []),
            member.get("reason") or None,
        )
        for member in members
    ]
    titles = ["AGENT", "STATE", "EXIT", "TIME", "ID", *(["RESULT"] if results else []), "REASON"]
    return table([*(["INDEX"] if array else []), *titles], rows, screen)


def result_line(member: MemberJson, *, array: bool) -> str:
    """The result of a member, in a line."""
    return printable(f"{name_of(member, array=array)}  {_result(member, sys.maxsize)}")


def _result(member: MemberJson, chars: int) -> str | None:
    found = member.get("result")
    if found is None:
        return None
    return shorten(json.dumps(found, ensure_ascii=False), chars)


def run_time(member: Mapping[str, Any], now: datetime) -> str:
    """Time from the start of a member to its end, or to now while it runs."""
    began = parse_time(member.get("started_at"))
    if began is None:
        return "-"
    ended = parse_time(member.get("ended_at"))
    if ended is None:
        return duration((now - began).total_seconds()) if member.get("state") == "active" else "-"
    return duration((ended - began).total_seconds())


def member_line(member: MemberJson, now: datetime, *, array: bool) -> str:
    """How a member ended, in a line."""
    parts = [f"{name_of(member, array=array)} {member['state'] or 'ended'}"]
    if member.get("exit_code") is not None:
        parts.append(f"exit code {plain(member.get('exit_code'))}")
    took = run_time(member, now)
    parts += [took] if took != "-" else []
    if member["state"] != State.COMPLETED and member.get("exit_code") is None:
        parts.append(plain(member.get("reason")))
    return ", ".join(parts)


def did_not_respond(member: MemberJson) -> bool:
    """Whether the agent has never started the job that was for it alone."""
    return member["state"] == State.FAILED and member.get("started_at") is None


class Count:
    """How many members have ended in each state."""

    def __init__(self, *, array: bool = False) -> None:
        self._states: Counter[str] = Counter()
        self._array = array
        self.silent = 0
        """Members whose agents did not respond; they are among the failed ones."""

    def add(self, members: Iterable[MemberJson]) -> None:
        """Count members that have ended."""
        for member in members:
            self._states[member["state"] or "of unknown end"] += 1
            self.silent += not self._array and did_not_respond(member)

    def text(self, members: int | None) -> str:
        """What has become of them so far, of so many."""
        if members is None:
            return "waits until its members are chosen"
        known = {state: self._states[state] for state in State if self._states[state]}
        other = sum(count for state, count in self._states.items() if state not in _KNOWN)
        left = members - sum(known.values()) - other
        said = sentence(known, members)
        return f"{said}; {left} left" if left > 0 else said

    @property
    def silent_text(self) -> str:
        """How many did not respond; empty for none."""
        if not self.silent:
            return ""
        return f"; {self.silent} {'agent' if self.silent == 1 else 'agents'} did not respond"
