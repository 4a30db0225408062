"""The month that scripts/cost works out from a configuration, resources and a load."""

import pytest

from joblane.config import Config
from joblane.job import chunk
from scripts.costs.month import Load, Month, UnknownPriceError
from scripts.costs.page import text, total
from scripts.costs.prices import (
    S3_GB,
    S3_PUT,
    SECONDS,
    TABLE_GB,
    WRITE_UNIT,
    instance_hour,
    table,
)
from scripts.costs.resources import Resources
from scripts.costs.usage import Output, chunks, output, projector_calls

TABLES = frozenset({"joblane-jobs", "joblane-agents", "joblane-settings"})
RESOURCES = Resources(
    machines=1,
    alarms=1,
    composite_alarms=0,
    log_metrics=1,
    dashboards=0,
    letter_readers=4,
    keyed_tables=TABLES,
    tables=dict.fromkeys(("submission", "requeue", "projector"), TABLES),
    scheduled={"requeue": 43_800.0},
    batch=1000,
    window_s=5,
    memory_gb=0.5,
    volume_gb=30,
)


def config(**fleet: object) -> Config:
    return Config.model_validate(
        {
            "tenants": {"main": {}},
            "queues": {"default": {"threads": 8}, "other": {"threads": 2}},
            "fleets": {"main": {"queues": ["default"], **fleet}},
        }
    )


def test_instances_are_those_that_the_load_needs_between_the_fleets_bounds():
    def needed(jobs_a_day: float, **fleet: object) -> tuple[int, bool]:
        month = Month(config(**fleet), RESOURCES, Load(jobs_a_day, 86.2, 0))
        return month.instances()["main"], month.short()

    assert (0, False) == needed(0)
    assert (1, False) == needed(1)
    assert (2, False) == needed(0, min_size=2)
    assert (1, False) == needed(8000)  # 8 at once, each 86.4 s with its start
    assert (2, False) == needed(8001)
    assert (4, True) == needed(100_000)
    month = Month(config(), RESOURCES, Load(100_000, 86.2, 0))
    assert "cannot run this load" in text(month)


def test_each_fleet_of_the_default_queue_takes_what_is_left():
    both = config().model_dump()
    both["fleets"]["second"] = {"queues": ["other", "default"]}
    both["fleets"]["third"] = {"queues": ["other"]}
    month = Month(Config.model_validate(both), RESOURCES, Load(40_000, 86.2, 0))
    assert {"main": 4, "second": 1, "third": 0} == month.instances()


def test_an_instance_type_without_a_price_is_named():
    month = Month(config(instance_types=["z9g.large"], min_size=1), RESOURCES, Load(0, 0, 0))
    with pytest.raises(UnknownPriceError, match=r"fleets\.main\.instance_types: z9g\.large"):
        month.lines()


def test_sizes_of_a_family_are_in_proportion():
    dollars = {
        size: price.dollars
        for size in ("medium", "large", "xlarge", "2xlarge", "16xlarge")
        if (price := instance_hour(f"c7g.{size}"))
    }
    assert pytest.approx([0.03625, 0.0725, 0.145, 0.29, 2.32]) == list(dollars.values())
    assert instance_hour("c7g.metal") is None


def test_without_jobs_nothing_is_paid_for_them():
    lines = Month(config(), RESOURCES, Load(0, 0, 1000)).lines()
    assert {"always"} == {line.group for line in lines}
    assert total(lines) > 0


def test_every_line_grows_with_the_jobs_or_stays():
    few, many = (Month(config(), RESOURCES, Load(jobs, 60, 2000)).lines() for jobs in (100, 200))
    assert [line.what for line in few] == [line.what for line in many]
    for before, after in zip(few, many, strict=True):
        assert before.dollars <= after.dollars, before.what
    grows = {a.what for a, b in zip(few, many, strict=True) if a.dollars < b.dollars}
    assert {"API requests", "write units", "SQS requests while jobs run"} <= grows


def test_the_projector_is_called_by_the_change_then_by_the_window_then_by_the_batch():
    assert 0 == projector_calls(0, 1000, 5)
    assert 100 == pytest.approx(projector_calls(100, 1000, 5), rel=0.01)
    busy = 40 * SECONDS
    assert 4 * SECONDS / 5 == pytest.approx(projector_calls(busy, 1000, 5), rel=0.05)
    assert 1e9 * SECONDS / 1000 == pytest.approx(projector_calls(1e9 * SECONDS, 1000, 5))


def test_a_line_of_output_is_one_chunk_and_no_output_none():
    assert Output() == output(0, 10, 90)
    assert Output(1, 128 + 60, 0, 0) == output(60, 0.01, 90)
    assert Output(1, 128 + 60, 0, 0) == output(60, 3600, 90)


def test_chunks_come_by_time_and_by_size():
    mb = 1 << 20
    assert [1, 2, 3, 4, 5, 6] == [chunks(mb, s) for s in (0.01, 0.5, 1.5, 3.5, 7.1, 12.1)]
    assert 1024 == chunks(1024 * mb, 10)


def test_large_chunks_lie_in_s3_and_their_rows_in_the_table():
    small, large = output(2000, 0.01, 90), output(100_000, 0.01, 90)
    assert (3, 0, 2128) == (small.write_units, small.puts, small.table_bytes)
    assert Output(1, 128, 1, 100_000) == large


def test_the_product_places_output_by_the_same_prices():
    assert WRITE_UNIT.of(1) == pytest.approx(chunk.WRITE_UNIT_DOLLARS)
    assert S3_PUT.of(1) == pytest.approx(chunk.PUT_DOLLARS)
    assert TABLE_GB.of(1) == chunk.TABLE_GB_MONTH_DOLLARS
    assert S3_GB.of(1) == chunk.S3_GB_MONTH_DOLLARS


def test_every_price_has_its_source():
    for price in table():
        assert price.source.startswith("https://aws.amazon.com/"), price.what
        assert price.dollars > 0
        assert price.amount > 0
