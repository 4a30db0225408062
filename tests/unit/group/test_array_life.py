"""What operators do with an array: cancel, retry, delete, resubmit; and what it says meanwhile."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from functions.projector.handler import Settings as ProjectorSettings
from functions.projector.handler import build as build_projector
from functions.sequel import handler as sequel
from joblane.aws.job.groups import GroupStore
from joblane.aws.queue.lanes import Lanes
from joblane.aws.queue.usage import UsageStore
from joblane.contract.groups import GroupRestart
from joblane.contract.problems import TryAgain
from joblane.deployment.names import Lane
from joblane.formats.times import rfc3339
from joblane.group.array import as_ranges
from joblane.group.record import PUT_MS
from joblane.service.group import view
from joblane.state.lifecycle import State
from tests.support.aws import DESCRIPTOR, NAME, configure
from tests.support.broadcast import NOW_MS, Broadcast
from tests.support.groups import GroupWorld
from tests.unit.group.test_arrays import ids, look, sent, show


def ended(at: Broadcast, *failed: int) -> Broadcast:
    """All members have ended, and these have failed."""
    for index in range(at.group().members):
        at.end(index, State.DEAD if index in failed else State.COMPLETED)
    at.deliver()
    sent(at)
    return at


def retry(at: Broadcast, **body: Any) -> tuple[int, dict[str, Any]]:
    status, answer = at.api("POST", f"{at.path}/retry", body)
    return status, dict(answer)


def test_a_retry_runs_the_members_that_failed_under_their_ids():
    at = ended(Broadcast(1, array={"size": 250}), 3, 120, 249)
    before = ids(at, 3, 120, 249)
    answers = at.sweep("retry")
    assert [1, 1, 1] == [answer["retried"] for answer in answers]
    assert before == sent(at)
    assert (State.PROCESSING, "", {"completed": 247, "pending": 3}) == (
        at.head.state,
        show(at)["failed_indices"],
        show(at)["counts"],
    )
    for index in (3, 120, 249):
        at.end(index)
    at.deliver()
    assert State.COMPLETED is at.head.state


def test_a_scheduled_array_has_nothing_to_retry():
    at = Broadcast(1, array={"size": 2}, run_at=rfc3339(NOW_MS + 60_000))
    status, answer = retry(at)
    text = "a group that is scheduled has begun no members: none has failed"
    assert (409, text) == (status, answer["detail"])


def test_a_retry_reads_no_page_without_failures():
    at = ended(Broadcast(1, array={"size": 350}), 320)
    (answer,) = at.sweep("retry")
    assert (50, 1) == (answer["examined"], answer["retried"])


def test_a_retry_by_index_leaves_the_others_and_says_why():
    at = ended(Broadcast(1, array={"first": 1, "last": 19, "step": 2}), 1, 2, 4)
    status, answer = retry(at, indices="1-5")
    assert (200, 2) == (status, answer["retried"])
    (left,) = answer["refused"]
    assert (
        at.group().id_of(0),
        "it is completed; members that are failed or dead are retried",
    ) == (
        left["id"],
        left["detail"],
    )
    assert ids(at, 1, 2) == sent(at)
    assert [3, 5] == [entry["index"] for entry in show(at, state="pending")["entries"]]


def test_a_retry_takes_the_indices_that_a_group_says_have_failed():
    """Of 10,000 members these take up to 100,000 characters; the audit trail keeps some."""
    first = 100_000_000
    at = Broadcast(
        1, array={"first": first, "last": first + 7 * 9_999, "step": 7}, max_concurrency=1
    )
    at.end(0, State.FAILED)
    indices = as_ranges(range(10_000), at.group().array)
    assert 99_999 == len(indices)
    status, answer = retry(at, indices=indices, same_version=True)
    assert (200, 1) == (status, answer["retried"])
    told = GroupRestart(indices=indices, same_version=True).for_trail()
    assert {"same_version": True, "indices": indices[:199] + "\u2026"} == told


@pytest.mark.parametrize(
    ("indices", "problem"),
    [
        ("3", "3 is no index of the array: 0 to 8 in steps of 2"),
        ("9-10", "9-10 is outside of the array, whose indices are 0 to 8 in steps of 2"),
        ("x", "must be indices and ranges of them, such as 3,5-9"),
    ],
)
def test_an_index_that_the_array_has_not_is_refused(indices: str, problem: str):
    at = Broadcast(1, array={"first": 0, "last": 9, "step": 2})
    status, answer = retry(at, indices=indices)
    assert (400, [{"field": "indices", "problem": problem}]) == (status, answer["errors"])
    status, answer = at.api("GET", at.path, query={"indices": indices})
    assert (400, [{"field": "indices", "problem": problem}]) == (status, answer["errors"])


def test_what_a_group_tolerated_is_retried_as_well():
    at = ended(Broadcast(1, array={"size": 4}, tolerate=1), 2)
    assert State.COMPLETED is at.head.state
    assert 1 == retry(at)[1]["retried"]
    assert (State.PROCESSING, ids(at, 2)) == (at.head.state, sent(at))


def test_a_group_without_failures_has_nothing_to_retry():
    at = ended(Broadcast(1, array={"size": 2}))
    assert 409 == retry(at)[0]


def test_members_are_retried_while_others_run():
    at = Broadcast(1, array={"size": 3})
    at.end(0, State.FAILED)
    at.claim(1)
    sent(at)
    assert 1 == retry(at)[1]["retried"]
    assert ids(at, 0) == sent(at)


def test_those_that_are_named_and_not_retried_are_refused_by_their_indices():
    at = Broadcast(1, array={"first": 1, "last": 399, "step": 2}, max_concurrency=4)
    at.end(2, State.FAILED)
    at.end(1)
    status, answer = retry(at, indices="3-9,399")
    assert (200, 1, 4) == (status, answer["retried"], answer["examined"])
    ended = "it is completed; members that are failed or dead are retried"
    waits = "it is pending; members that are failed or dead are retried"
    first, second, *_ = found = [
        (each["index"], each["id"], each["detail"]) for each in answer["refused"]
    ]
    assert [(3, ids(at, 1)[0], ended), (7, ids(at, 3)[0], waits)] == [first, second]
    assert (9, None, "it has not begun") == found[2]
    status, answer = at.api(
        "POST", f"{at.path}/retry", {"indices": "3-9,399"}, query={"next": answer["next"]}
    )
    assert [(399, None)] == [(each["index"], each["id"]) for each in answer["refused"]]
    assert (1, 0, None) == (answer["examined"], answer["retried"], answer["next"])


def test_members_are_counted_where_that_is_asked_for():
    at = Broadcast(1, array={"size": 3})
    assert {"pending": 3} == show(at)["counts"]
    for query in ({"indices": "1"}, {"counts": "false"}):
        page = show(at, **query)
        assert (None, None, None) == (page["counts"], page["indices"], page["failed_indices"])
    page = show(at, indices="0-1", counts="true", limit="1")
    assert {"pending": 3} == page["counts"]
    assert None is show(at, indices="0-1", limit="1", next=page["next"])["counts"]
    assert 400 == at.api("GET", at.path, query={"counts": "1"})[0]


def test_members_are_shown_by_index_and_by_state():
    at = Broadcast(1, array={"size": 1200}, max_concurrency=150)
    at.end(120, State.FAILED)
    found = show(at, indices="0,119-121,1199")["entries"]
    assert [
        (0, "pending"),
        (119, "pending"),
        (120, "failed"),
        (121, "pending"),
        (1199, "waiting"),
    ] == [(entry["index"], entry["state"]) for entry in found]
    assert (
        "waits for its turn: at most 150 run at once (max_concurrency), and 1049 begin before it"
        == found[-1]["reason"]
    )
    assert [120] == [entry["index"] for entry in show(at, state="failed")["entries"]]
    waiting, query = [], {"state": "waiting", "limit": "100"}
    while True:
        page = show(at, **query)
        waiting += [entry["index"] for entry in page["entries"]]
        if page["next"] is None:
            break
        query["next"] = page["next"]
    assert list(range(150, 1200)) == waiting


def test_the_indices_of_each_state_are_read_only_where_the_group_does_not_tell_them():
    """The row of an end that has expired is not missed, but where a page ended in several ways."""
    at = Broadcast(1, array={"size": 250}, max_concurrency=202)
    for index in range(200):
        mixed = {100: State.SKIPPED, 101: State.FAILED, 102: State.DEAD}
        at.end(index, mixed.get(index, State.DEAD if index == 7 else State.COMPLETED))
    at.deliver()
    assert {0, 1} == set(at.group().done)
    for index in (6, 7, 101, 103):
        at.aws.jobs.delete(at.group().id_of(index))
    page = show(at)
    begun = at.group().begun
    assert {
        "completed": "0-6,8-99,104-199",
        "skipped": "100",
        "dead": "7,102",
        "pending": f"200-{begun - 1}",
    } | ({"waiting": f"{begun}-249"} if begun < 250 else {}) == page["indices"]
    assert (196, "7,102") == (page["counts"]["completed"], page["failed_indices"])
    assert at.api("GET", at.path, query={"limit": "1"})[1]["next"]
    following = show(at, next=show(at, limit="1")["next"])
    assert (None, None) == (following["indices"], following["counts"])


def test_a_filter_by_state_examines_so_many_members_in_a_request(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(view, "MOST_EXAMINED", 100)
    at = Broadcast(1, array={"size": 250})
    at.end(210, State.DEAD)
    found, query = [], {"state": "dead"}
    while True:
        page = show(at, **query)
        found.append([entry["index"] for entry in page["entries"]])
        if page["next"] is None:
            break
        query["next"] = page["next"]
    assert [[], [], [210]] == found


def test_members_of_a_page_that_failed_in_two_ways_are_told_apart():
    at = Broadcast(1, array={"size": 4})
    for index, state in enumerate([State.DEAD, State.FAILED, State.COMPLETED, State.DEAD]):
        at.end(index, state)
    at.deliver()
    assert {"completed": "2", "failed": "1", "dead": "0,3"} == show(at)["indices"]


def test_a_page_of_failed_members_goes_on_where_it_ended():
    failed = [1, 2, 3, 150, 151, 299]
    at = ended(Broadcast(1, array={"size": 300}), *failed)
    found, query = [], {"state": "dead", "limit": "2"}
    while True:
        page = show(at, **query)
        found.append([entry["index"] for entry in page["entries"]])
        if page["next"] is None:
            break
        query["next"] = page["next"]
    assert failed == [index for some in found for index in some]
    assert all(len(some) <= 2 for some in found)


def test_a_cancel_ends_what_waits_and_what_never_began():
    at = Broadcast(1, array={"size": 40}, max_concurrency=20)
    at.claim(3)
    answers = at.sweep("cancel")
    assert 20 == sum(answer["examined"] for answer in answers)
    at.end(3)
    at.deliver()
    assert {"cancelled": 39, "completed": 1} == show(at)["counts"]
    assert State.PARTIAL_FAILURE is at.head.state
    assert "1 of 40 completed; 39 cancelled: cancelled by" in at.head.reason


def test_nothing_is_sent_once_a_cancel_came_between_rows_and_messages():
    at = GroupWorld()
    head = at.submit_array(30)
    puts = 0

    def meddle() -> None:
        nonlocal puts
        puts += 1
        if puts == 8:  # amid the rows of the first ten
            at.stop("cancelled by ada")

    at.meddle = meddle
    at.members.place(head, range(30), NOW_MS)
    at.meddle = lambda: None
    assert [] == at.lane_jobs()
    assert 30 == len(at.states()), "the cancel finds them, and ends them"


def test_the_watch_cancels_what_the_requests_of_a_cancel_did_not_come_to():
    at = Broadcast(1, array={"size": 250})
    at.claim(120)
    _, first = at.api("POST", f"{at.path}/cancel")
    assert (100, True) == (first["cancelled"], first["next"] is not None)
    sent(at)
    look(at, 9)
    assert {"cancelled": 100, "active": 1, "pending": 149} == show(at)["counts"]
    look(at, 10)
    assert {"cancelled": 249, "active": 1} == show(at)["counts"]
    assert at.member(120).cancel_requested is not None
    assert [] == sent(at)


def test_the_watch_looks_soon_at_a_cancelled_array_that_others_go_on_placing():
    at = Broadcast(1, array={"size": 250})
    left = at.group().next(placed=200, goes_on=True)
    at.store.write_group(at.head, replace(at.head, group=left))
    at.api("POST", f"{at.path}/cancel")
    at.deliver()  # `sequel` places the last page
    assert 250 == at.group().placed
    look(at, 10)
    assert {"cancelled": 250} == show(at)["counts"]


def test_the_watch_finishes_the_cancel_of_an_array_that_failures_have_stopped():
    at = Broadcast(1, array={"size": 350}, max_concurrency=160, max_failures=9)
    for index in range(10):  # a chunk
        at.end(index, State.FAILED)
    at.deliver()
    assert {"failed": 10, "pending": 150, "skipped": 190} == show(at)["counts"]
    _, first = at.api("POST", f"{at.path}/cancel")
    assert (90, True) == (first["cancelled"], first["next"] is not None)
    look(at, 10)
    assert {"failed": 10, "cancelled": 340} == show(at)["counts"]
    at.deliver()
    assert [10] == [answer["retried"] for answer in at.sweep("retry")]
    for index in range(10):
        at.end(index)
    at.deliver()
    assert {"completed": 10, "cancelled": 340} == show(at)["counts"]


@pytest.mark.parametrize("limit", [{}, {"max_concurrency": 2}, {"max_concurrency": 40}])
def test_what_is_retried_after_a_cancel_runs_and_what_never_began_does_not(limit: dict[str, Any]):
    at = Broadcast(1, array={"size": 5}, **limit)
    at.end(0, State.FAILED)
    at.claim(1)
    at.sweep("cancel")
    assert 409 == retry(at)[0], "it is being cancelled"
    at.end(1, State.CANCELLED)
    at.deliver()
    sent(at)
    assert {"failed": 1, "cancelled": 4} == show(at)["counts"]
    assert 1 == retry(at)[1]["retried"]
    assert ids(at, 0) == sent(at)
    look(at, 301)
    assert {"pending": 1, "cancelled": 4} == show(at)["counts"]
    at.claim(0)
    look(at, 601)
    assert at.member(0).cancel_requested is None
    at.sweep("cancel")
    assert at.member(0).cancel_requested is not None
    assert at.group().cancels


def test_what_has_no_row_a_day_after_it_was_begun_is_not_run():
    at = GroupWorld()
    head = at.submit_array(3)
    at.members.complete(head, range(2), NOW_MS + PUT_MS - 1)
    at.members.complete(head, range(3), NOW_MS + PUT_MS)
    assert [State.PENDING, State.PENDING, State.FAILED] == list(at.states().values())
    assert head.group is not None
    assert head.group.id_of(2) not in at.lane_jobs()


def test_members_whose_rows_expired_before_their_events_came_have_ended():
    at = Broadcast(1, array={"size": 3})
    for index in range(3):
        at.end(index)
        at.aws.jobs.delete(at.group().id_of(index))
    at.stream.take()
    look(at, 301)
    assert (State.COMPLETED, "3 of 3 completed") == (at.head.state, at.head.reason)


def test_an_end_that_comes_twice_sends_nothing_again():
    """Up to a thousand members wait; the watch sends them again, when it is time."""
    at = Broadcast(1, array={"size": 40}, max_concurrency=20)
    at.end(0)
    sent(at)
    records = at.stream.take()
    for _ in range(2):
        function = sequel.build(configure(sequel.Settings), at.aws.clients, lambda: at.now)
        function.handle(records)
    assert ids(at, 20) == sent(at)


def test_a_page_is_not_placed_while_sqs_refuses_messages():
    class Refusing(Lanes):
        def send_batch(self, _queue: str, _lane: Lane, messages: Any) -> Any:
            return [message for message, _ in messages][:1]

    at = GroupWorld()
    head = at.submit_array(3)
    lanes = Refusing(at.lanes._client, DESCRIPTOR.queue_url_prefix, NAME)
    with pytest.raises(TryAgain):
        replace(at.members, lanes=lanes).place(head, range(3), NOW_MS)


def test_an_array_is_deleted_with_its_members_and_values():
    at = ended(Broadcast(1, array={"values": [{"n": n} for n in range(130)]}))
    assert 204 == at.api.raw("DELETE", f"/v1/jobs/{at.id}")["statusCode"]
    rows = at.memory.tables.rows[DESCRIPTOR.jobs_table]
    assert [] == [key for key in rows if key[1] not in {"KEY", "IDEMPOTENCY"}]


def test_a_scheduled_array_is_deleted_with_its_values():
    at = Broadcast(1, array={"values": [1] * 130}, run_at=rfc3339(NOW_MS + 60_000))
    rows = at.memory.tables.rows[DESCRIPTOR.jobs_table]
    assert {"VALUES#0000", "VALUES#0001"} <= {sk for _, sk in rows}
    assert 204 == at.api.raw("DELETE", f"/v1/jobs/{at.id}")["statusCode"]
    assert [] == [key for key in rows if key[1] not in {"KEY", "IDEMPOTENCY"}]


@pytest.mark.parametrize("fields", [{}, {"run_at": rfc3339(NOW_MS + 60_000)}])
def test_the_values_of_an_array_live_as_long_as_it_has_not_ended(fields: dict[str, Any]):
    at = Broadcast(1, array={"values": [1] * 130}, **fields)
    at.store.keep_data(at.head, late := NOW_MS // 1000 + 900 * 86_400)
    rows = at.memory.tables.rows[DESCRIPTOR.jobs_table]
    kept = [row["expires_at"]["N"] for (_, sk), row in rows.items() if sk.startswith("VALUES#")]
    assert [str(late)] * 2 == kept


def test_an_array_is_resubmitted_with_its_values():
    at = ended(Broadcast(1, array={"values": ["a", "b", "c"]}, tolerate="50 %"), 0)
    status, again = at.api("POST", f"/v1/jobs/{at.id}/resubmit")
    assert (202, 3, "50 %") == (status, again["members"], again["tolerate"])
    _, whole = at.api("GET", f"/v1/jobs/{again['id']}")
    assert ["a", "b", "c"] == whole["array"]["values"]


def test_a_deadline_ends_members_that_have_not_started():
    at = Broadcast(1, array={"size": 2}, deadline=rfc3339(NOW_MS + 30_000))
    at.end(0)
    look(at, 61)
    assert State.EXPIRED is at.member(1).state
    at.deliver()
    assert State.PARTIAL_FAILURE is at.head.state


def test_members_that_have_not_begun_wait_too():
    at = Broadcast(1, array={"size": 50}, max_concurrency=5)
    counters = UsageStore(
        at.aws.clients.make("dynamodb"), configure(ProjectorSettings).counters_table
    )

    def waiting() -> int:
        build_projector(configure(ProjectorSettings), at.aws.clients, lambda: at.now).handle(
            at.stream.take()
        )
        accounts, _ = counters.accounts("acme")
        return 0 if accounts is None else accounts.figures.present.waiting

    assert 50 == waiting()
    at.claim(0)
    assert 49 == waiting()
    at.sweep("cancel")
    assert 0 == waiting()


def test_a_filter_by_state_reads_no_page_without_such_members(monkeypatch: pytest.MonkeyPatch):
    at = ended(Broadcast(1, array={"size": 500}), 420)
    heads, read = GroupStore.heads, list[int]()

    def counted(store: GroupStore, job_ids: Sequence[str], **options: Any) -> Any:
        read.append(len(job_ids))
        return heads(store, job_ids, **options)

    monkeypatch.setattr(GroupStore, "heads", counted)
    (entry,) = show(at, state="dead")["entries"]
    assert (420, 100) == (entry["index"], sum(read))
