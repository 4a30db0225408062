"""The local AWS delivers batches of a stream when they are full, or as old as their window."""

import pytest

from scripts.local.launcher import Windows, without_object


@pytest.fixture
def windows() -> Windows:
    return Windows()


def due(windows: Windows, position: int, unread: int, now: float, mapping: str = "m") -> bool:
    return windows.due(mapping, position, unread, 10, 1.0, now)


def test_a_batch_waits_for_its_window(windows: Windows):
    assert not due(windows, 0, 1, 0.0)
    assert not due(windows, 0, 5, 0.9)
    assert due(windows, 0, 6, 1.0)


def test_each_delivery_begins_a_window(windows: Windows):
    due(windows, 0, 1, 0.0)
    assert due(windows, 0, 6, 1.0)
    assert due(windows, 0, 6, 1.1), "it failed, or is not delivered yet"
    assert not due(windows, 6, 2, 1.2)
    assert due(windows, 6, 2, 2.2)


def test_a_full_batch_is_delivered_at_once(windows: Windows):
    assert not due(windows, 0, 9, 0.0)
    assert due(windows, 0, 10, 0.1)


def test_a_window_begins_with_its_first_record(windows: Windows):
    assert not due(windows, 0, 0, 0.0)
    assert not due(windows, 0, 0, 50.0)
    assert not due(windows, 0, 1, 50.5)
    assert due(windows, 0, 1, 51.0)


def test_mappings_have_windows_of_their_own(windows: Windows):
    due(windows, 0, 1, 0.0)
    assert not due(windows, 0, 1, 1.5, mapping="other")
    assert due(windows, 0, 1, 1.5)


@pytest.mark.parametrize(
    ("resource", "recorded"),
    [
        ("arn:aws:s3:::b/files/demo/0123", "arn:aws:s3:::b/files/demo/*"),
        ("arn:aws:s3:::b/outputs/demo/01K/3/a/b.csv", "arn:aws:s3:::b/outputs/demo/*"),
        ("arn:aws:s3:::b/payloads/01K", "arn:aws:s3:::b/payloads/*"),
        ("arn:aws:s3:::b/cdk-0123.zip", "arn:aws:s3:::b/cdk-0123.zip"),
        ("arn:aws:s3:::b", "arn:aws:s3:::b"),
        (
            "arn:aws:dynamodb:us-east-1:0:table/t/index/i",
            "arn:aws:dynamodb:us-east-1:0:table/t/index/i",
        ),
    ],
)
def test_the_witness_of_calls_has_no_line_for_each_object(resource: str, recorded: str):
    assert recorded == without_object(resource)
