"""The audit trail's table: rows are added once, and read in pages that hold each record once."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError
from ulid import ULID

from joblane.audit.records import MAX_ASKED, Action, AuditRecord, Refusal, encode_asked
from joblane.audit.who import Who
from joblane.aws.audit import EXAMINED_MAX, AuditStore, TrailQuery
from joblane.contract.audit import ACTION_REASON_CHARS, Because, entry_view
from tests.support.aws import AUDIT_TABLE, Cloud
from tests.support.jobs import JOB

NOW_MS = 1_795_226_829_005
DAY_S = 86_400
WHO = Who("person", "5e1f", "ada@example.org")
REFUSED = Refusal(409, "the job has ended")


@pytest.fixture(name="store")
def _store(aws: Cloud) -> AuditStore:
    return AuditStore(aws.clients.make("dynamodb"), AUDIT_TABLE)


def record(
    n: int, action: Action = "cancel", job: str | None = JOB, tenant: str = "acme"
) -> AuditRecord:
    record_id = str(ULID.from_timestamp((NOW_MS + n) / 1000))
    target = {"queue": "default"} if job is None else {"job_id": job}
    return AuditRecord(record_id, tenant, action, WHO, tuple(target.items()), request_id=f"r-{n}")


def add(store: AuditStore, *records: AuditRecord) -> None:
    for one in records:
        store.add(one, NOW_MS // 1000 + DAY_S)


def read(store: AuditStore, limit: int, **wanted: Any) -> tuple[list[AuditRecord], int]:
    """Read all pages; returns the records and how many pages there were."""
    found: list[AuditRecord] = []
    before = None
    for pages in range(1, 300):
        page, before = store.of_tenant("acme", TrailQuery(limit, before=before, **wanted))
        assert len(page) <= limit
        found += page
        if before is None:
            return found, pages
    raise AssertionError("reading does not end")


@pytest.mark.parametrize(("limit", "expected"), [(1, 11), (2, 5), (3, 4), (10, 1), (100, 1)])
def test_pages_hold_every_record_once_newest_first(store: AuditStore, limit: int, expected: int):
    written = [record(n) for n in range(10)]
    add(store, *written)
    for n in (0, 3, 4, 9):
        store.add_refusal(written[n], REFUSED, NOW_MS // 1000 + DAY_S)
    found, pages = read(store, limit)
    assert [one.record_id for one in written[::-1]] == [one.record_id for one in found]
    refused = [9 - n for n, one in enumerate(found) if one.refusal == REFUSED]
    assert [9, 4, 3, 0] == refused
    assert expected == pages  # DynamoDB does not say that a full page was the last one


def test_a_record_comes_back_as_it_was_written(store: AuditStore):
    whole = AuditRecord(
        record(0).record_id,
        "acme",
        "settings",
        WHO,
        (("queue", "default"),),
        "a f\u00fcr b",
        '{"run_jobs":false}',
        "request-1",
    )
    bare = AuditRecord(record(1).record_id, "acme", "drain", None)
    add(store, whole, bare)
    assert [bare, whole] == read(store, 10)[0]
    view = entry_view(whole)
    assert "2026-11-21T02:07:09.005Z" == view.at
    assert {"run_jobs": False} == view.asked
    assert view.by is not None
    assert ("ada@example.org", "person") == (view.by.name, view.by.kind)


def test_a_job_has_a_trail_of_its_own_and_so_has_a_tenant(store: AuditStore):
    other = "01ARZ3NDEKTSV4RRFFQ69G5FAW"
    mine = [record(0), record(1, "retry"), record(2, "cancel", other), record(3, "requeue", None)]
    add(store, *mine, record(4, tenant="other"))
    found, following = store.of_job("acme", JOB, TrailQuery(10))
    assert (["retry", "cancel"], None) == ([one.action for one in found], following)
    assert [mine[2]] == store.of_job("acme", other, TrailQuery(10))[0]
    assert mine[::-1] == read(store, 10)[0]


def test_moments_and_actions_narrow_it(store: AuditStore):
    add(store, *(record(n, "retry" if n % 2 else "cancel") for n in range(10)))
    since, until = record(3).record_id[:10] + "0" * 16, record(7).record_id[:10] + "0" * 16
    found, _ = store.of_tenant("acme", TrailQuery(10, before=until, since=since))
    assert [NOW_MS + n for n in (6, 5, 4, 3)] == [one.at_ms for one in found]
    found, _ = read(store, 2, action="retry", since=since)
    assert [NOW_MS + n for n in (9, 7, 5, 3)] == [one.at_ms for one in found]


def test_looking_for_a_rare_action_has_a_bounded_price(aws: Cloud, store: AuditStore):
    add(store, record(0, "drain", None), *(record(n) for n in range(1, EXAMINED_MAX + 150)))
    queries = []
    aws.emitter().register("before-call.dynamodb.Query", lambda **_: queries.append(1))
    store = AuditStore(aws.clients.make("dynamodb"), AUDIT_TABLE)
    page, following = store.of_tenant("acme", TrailQuery(100, action="drain"))
    assert ([], 3) == (page, len(queries))
    assert following is not None
    found, _ = store.of_tenant("acme", TrailQuery(100, before=following, action="drain"))
    assert ["drain"] == [one.action for one in found]


def test_a_refusal_whose_record_has_expired_is_passed_over(aws: Cloud, store: AuditStore):
    written = [record(n) for n in range(4)]
    add(store, *written)
    for one in written:
        store.add_refusal(one, REFUSED, NOW_MS // 1000 + DAY_S)
    for one in written[:3]:
        aws.clients.make("dynamodb").delete_item(
            TableName=AUDIT_TABLE, Key={"tenant": {"S": "acme"}, "id": {"S": one.record_id}}
        )
    assert [written[3].record_id] == [one.record_id for one in read(store, 1)[0]]


def test_a_row_is_never_written_over(aws: Cloud, store: AuditStore):
    first = record(0)
    add(store, first)
    add(store, AuditRecord(first.record_id, "acme", "delete", WHO))  # as a repeated call would
    assert [first] == read(store, 10)[0]
    assert 1 == aws.clients.make("dynamodb").scan(TableName=AUDIT_TABLE)["Count"]


@given(st.builds(Who, st.sampled_from(["person", "machine"]), st.text(), st.text()))
def test_somebody_survives_the_text(who: Who):
    assert who == Who.decode(who.encode())


@pytest.mark.parametrize(
    "reason", ["", "a\nb", "a\x00", "\u202e", "x" * (ACTION_REASON_CHARS + 1), 5]
)
def test_a_reason_is_one_line_of_printable_text(reason: object):
    with pytest.raises(ValidationError):
        Because.model_validate({"reason": reason})
    assert "tidy up, f\u00fcr Ada" == Because(reason="tidy up, f\u00fcr Ada").reason


def test_too_much_that_was_asked_for_is_left_out():
    assert encode_asked({}) is None
    assert encode_asked({"a": "x" * MAX_ASKED}) is None
    assert '{"a":"x"}' == encode_asked({"a": "x"})
