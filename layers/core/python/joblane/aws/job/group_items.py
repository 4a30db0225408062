"""A group as the attribute `group` of its job's item, its roster, and the ends that are noted.

The row of a group is written for each page and, with `max_concurrency`, for each chunk of members
that begin, and a write costs a unit a kilobyte. So what has a value for each member or page is
deflated: a set of members as a bit each, the tallies as a byte for each page and state. 500 members
of 5,000 take about 300 bytes, as a list of numbers 2 KB.
"""

import zlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from joblane.aws.table import Row
from joblane.group.array import Indices
from joblane.group.record import Group, Stop
from joblane.group.states import Tally
from joblane.state.lifecycle import State


def group_value(group: Group) -> dict[str, Any]:
    """The attribute of a group: a map without what is empty."""
    stop = group.stop
    known = {
        "v": group.version,
        "n": group.members,
        "first": group.first,
        "begun": group.begun,
        "placed": group.placed,
        "begun_ms": group.begun_ms,
        "done": _pack_tallies(group.done),
        "open": _pack(group.open),
        "failed": _pack(group.failed),
        "again": _pack(group.again),
        "stop": None if stop is None else _stop_value(stop),
        "goes_on": 1 if group.goes_on else None,
        "changed": group.changed or None,
        "array": None if group.array is None else list(group.array),
        "tolerate": group.tolerate or None,
        "lost": _pack(group.lost),
    }
    return {name: value for name, value in known.items() if value not in (None, [], {})}


def read_group(value: dict[str, Any]) -> Group:
    """Inverse of `group_value`."""
    return Group(
        members=value["n"],
        first=value["first"],
        version=value["v"],
        begun=value["begun"],
        placed=value["placed"],
        begun_ms=value["begun_ms"],
        done=_read_tallies(value.get("done", {})),
        open=frozenset(_unpack(value.get("open"))),
        failed=frozenset(_unpack(value.get("failed"))),
        again=tuple(_unpack(value.get("again"))),
        stop=_stop(*value["stop"]) if "stop" in value else None,
        goes_on="goes_on" in value,
        changed=value.get("changed", False),
        array=Indices(*value["array"]) if "array" in value else None,
        tolerate=value.get("tolerate", 0),
        lost=frozenset(_unpack(value.get("lost"))),
    )


_BITS = [[bit for bit in range(8) if byte >> bit & 1] for byte in range(256)]
"""The bits of each byte that are set."""


def _pack(members: Iterable[int]) -> bytes | None:
    """A set of members, deflated; None if it is empty."""
    bits = 0
    for index in members:
        bits |= 1 << index
    return _deflate(bits.to_bytes(-(-bits.bit_length() // 8), "little")) if bits else None


def _unpack(packed: bytes | None) -> list[int]:
    """Inverse of `_pack`: the members, in order."""
    if packed is None:
        return []
    data = zlib.decompress(packed, wbits=_RAW)
    return [n * 8 + bit for n, byte in enumerate(data) if byte for bit in _BITS[byte]]


def _pack_tallies(done: Mapping[int, Tally]) -> dict[str, bytes]:
    """How many members of each page ended in each state, at most 100; of a page not done none."""
    states = sorted({state for tally in done.values() for state, count in tally.items() if count})
    pages = range(max(done, default=-1) + 1)
    return {
        str(state): _deflate(bytes(done.get(page, {}).get(state, 0) for page in pages))
        for state in states
    }


def _read_tallies(value: Mapping[str, bytes]) -> dict[int, Tally]:
    """Inverse of `_pack_tallies`."""
    found: dict[int, dict[State, int]] = {}
    for state, packed in value.items():
        for page, count in enumerate(zlib.decompress(packed, wbits=_RAW)):
            if count:
                found.setdefault(page, {})[State(state)] = count
    return dict(sorted(found.items()))


_RAW = -zlib.MAX_WBITS
"""Without a header and a checksum: DynamoDB keeps what it was given."""


def _deflate(data: bytes) -> bytes:
    return zlib.compress(data, 9, wbits=_RAW)


def noted_key(group: Group) -> Row:
    """Primary key of the item with members whose ends are noted; where the roster is."""
    return {"job_id": group.first, "sk": "ENDS"}


def _stop_value(stop: Stop) -> list[str]:
    return [str(stop.state), stop.why, *(["retried"] if stop.retried else [])]


def _stop(state: str, why: str, retried: str = "") -> Stop:
    if state == State.CANCELLED:
        return Stop(State.CANCELLED, why, retried=bool(retried))
    return Stop(State.SKIPPED, why)


def roster_key(group: Group, page: int) -> Row:
    """Primary key of the item with the agents of a page.

    In the partition of the first member, whose id is random: two requests with the same
    Idempotency-Key, which may find other agents, write two rosters.
    """
    return {"job_id": group.first, "sk": f"AGENTS#{page:04d}"}


def roster_row(group: Group, page: int, agents: Sequence[str], expires_at: int) -> Row:
    """The item with the names of the agents of a page, in order; names have no spaces."""
    return {**roster_key(group, page), "agents": " ".join(agents), "expires_at": expires_at}
