"""The table of job types: versions that never change, and the number of the last one."""

import json
from dataclasses import replace

import pytest

from joblane.aws.typed.types import Latest
from joblane.errors import Changed
from tests.support.aws import DESCRIPTOR, Cloud
from tests.support.types import WHO, definition, store_type, type_store


def test_a_version_reads_back_as_it_was_pushed(aws: Cloud):
    pushed = store_type(aws, defaults={"queue": "bulk", "retry": {"max_attempts": 2}})
    assert 1 == pushed.version
    assert pushed == type_store(aws).version("acme", "sync-tickets", 1)
    assert Latest(1, removed=False) == type_store(aws).latest("acme", "sync-tickets")
    assert {"sync-tickets": 1} == type_store(aws).names("acme")


def test_what_was_never_pushed_is_not_there(aws: Cloud):
    store = type_store(aws)
    assert None is store.version("acme", "a", 1)
    assert None is store.latest("acme", "a").current
    assert {} == store.names("acme")
    assert [] == store.versions("acme", [("a", 1)])


def test_types_belong_to_one_tenant(aws: Cloud):
    store_type(aws)
    assert None is type_store(aws).version("other", "sync-tickets", 1)
    assert {} == type_store(aws).names("other")


def test_an_earlier_version_stays(aws: Cloud):
    first = store_type(aws)
    second = store_type(aws, items=None)
    store = type_store(aws)
    assert 2 == store.latest("acme", "sync-tickets").current
    assert first == store.version("acme", "sync-tickets", 1)
    assert second == store.version("acme", "sync-tickets", 2)
    assert {"sync-tickets": 2} == store.names("acme")


def test_of_two_pushes_over_one_version_the_second_is_refused_and_changes_nothing(aws: Cloud):
    first = store_type(aws)
    store = type_store(aws)
    second = replace(first, version=2)
    store.push("acme", second)
    late = replace(first, version=2, definition=definition(description="late"))
    with pytest.raises(Changed):
        store.push("acme", late)
    assert second == store.version("acme", "sync-tickets", 2)


def test_the_first_push_of_a_name_is_refused_too_if_another_one_was_first(aws: Cloud):
    first = store_type(aws)
    with pytest.raises(Changed):
        type_store(aws).push("acme", replace(first, pushed_by=WHO, pushed_at_ms=1))


def test_a_removed_type_keeps_its_versions_and_its_number(aws: Cloud):
    first = store_type(aws)
    store_type(aws, name="other-type")
    store = type_store(aws)
    store.remove("acme", "sync-tickets", 1)
    assert Latest(1, removed=True) == store.latest("acme", "sync-tickets")
    assert None is store.latest("acme", "sync-tickets").current
    assert {"other-type": 1} == store.names("acme")
    assert first == store.version("acme", "sync-tickets", 1)
    assert 2 == store_type(aws).version
    assert {"other-type": 1, "sync-tickets": 2} == store.names("acme")
    assert 2 == store.latest("acme", "sync-tickets").current


def test_what_has_changed_or_is_removed_is_not_removed(aws: Cloud):
    store_type(aws)
    store_type(aws)
    store = type_store(aws)
    with pytest.raises(Changed):
        store.remove("acme", "sync-tickets", 1)
    store.remove("acme", "sync-tickets", 2)
    with pytest.raises(Changed):
        store.remove("acme", "sync-tickets", 2)


def test_many_versions_are_read_in_the_order_of_names(aws: Cloud):
    for name in ("c", "a", "b"):
        store_type(aws, name=name)
    found = type_store(aws).versions("acme", [("b", 1), ("c", 1), ("x", 1), ("a", 1)])
    assert ["a", "b", "c"] == [version.name for version in found]


def test_an_agent_reads_a_definition_with_fields_of_a_later_release(aws: Cloud):
    version = store_type(aws, defaults={"queue": "bulk"})
    dynamodb = aws.clients.make("dynamodb")
    key = {"type": {"S": "acme#sync-tickets#1"}}
    row = dynamodb.get_item(TableName=DESCRIPTOR.types_table, Key=key)["Item"]
    later = json.loads(row["definition"]["S"])
    later["colour"], later["defaults"]["shape"] = "blue", 3
    row["definition"] = {"S": json.dumps(later)}
    dynamodb.put_item(TableName=DESCRIPTOR.types_table, Item=row)
    assert version == type_store(aws).version("acme", "sync-tickets", 1)
