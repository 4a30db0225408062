"""Why a fleet gives a waiting job no agent: a line for each record of the scaler."""

from dataclasses import replace

import pytest

from joblane.fleet.launch_errors import launch_error
from joblane.fleet.record import STALE_MS, FleetRecord
from joblane.queue.settings import QueueSettings
from joblane.why.explain import explain
from joblane.why.reason import KINDS
from joblane.why.situation import Fleet
from tests.support.situations import FULL, NOW, OPEN, PAUSED, READY, codes, first, waits

PLAIN = FleetRecord(
    decided_ms=NOW - 30_000, wanted=8, desired=2, max=4, in_service=2, alive=2, busy=2, booting=0
)
SHORT = replace(PLAIN, in_service=1, below_since_ms=NOW - 720_000, short_since_ms=NOW - 600_000)
FAILED = replace(
    PLAIN,
    boot_failed_ms=NOW - 120_000,
    boot_failed_instance="i-0123456789abcdef0",
    boot_failed_reason="failed its setup: exit code 3: no GPU here",
)
VCPU = (
    "You have requested more vCPU capacity than your current vCPU limit of 32 allows for the "
    "instance bucket that the specified instance type belongs to. Launching EC2 instance failed."
)


def fleet(record: FleetRecord | None, name: str = "main", size: int = 4) -> Fleet:
    return Fleet(name, f"joblane-{name}", size, ("c7g.large", "c6g.large"), record)


@pytest.mark.parametrize(
    ("record", "expected", "words"),
    [
        (None, ["no_agents"], "is alive: start an agent"),
        (PLAIN, ["fleet_not_raised", "no_agents"], "no more than 2 instances of fleet main"),
        (
            replace(PLAIN, decided_ms=NOW - STALE_MS, limit="max"),
            ["scaler_silent", "no_agents"],
            "has written nothing about fleet main since 2027-01-15T07:50:00Z (10 min ago)",
        ),
        (
            replace(PLAIN, blind_since_ms=NOW - 60_000, blind_reason="SQS: throttled"),
            ["scaler_blind", "no_agents"],
            "until it can: SQS: throttled",
        ),
        (
            replace(PLAIN, blind_since_ms=NOW - 60_000, blind_queues=("bulk", "default")),
            ["scaler_blind", "no_agents"],
            "fleet main may not grow for queue default until it can",
        ),
        (
            replace(PLAIN, blind_since_ms=NOW - 60_000, blind_queues=("bulk",), limit="max"),
            ["fleet_max", "no_agents"],
            "raise max_size of fleets.main",
        ),
        (
            replace(PLAIN, desired=4, in_service=1, below_since_ms=NOW - 60_000),
            ["fleet_booting", "no_agents"],
            "3 instances of fleet main start since 2027-01-15T07:59:00Z (60 s ago): their agents",
        ),
        (
            replace(PLAIN, booting=1, raised_ms=NOW - 60_000, limit="step"),
            ["fleet_booting", "no_agents"],
            (
                "1 instance of fleet main starts since 2027-01-15T07:59:00Z (60 s ago): its agent "
                "takes jobs as soon as the boot is over; more are asked for each minute"
            ),
        ),
        (
            replace(PLAIN, limit="max", max=4),
            ["fleet_max", "no_agents"],
            "raise max_size of fleets.main in joblane.toml and deploy",
        ),
        (
            replace(PLAIN, limit="max", max=2),
            ["fleet_max", "no_agents"],
            "somebody set that at the Auto Scaling group joblane-main, joblane.toml has max_size 4",
        ),
        (
            replace(PLAIN, limit="max", booting=1),
            ["fleet_booting", "fleet_max", "no_agents"],
            "1 instance of fleet main starts: its agent",
        ),
        (
            replace(SHORT, short_reason="InsufficientInstanceCapacity - We currently do not have"),
            ["fleet_short", "no_agents"],
            (
                "fleet main has 1 of 2 wanted instances since 2027-01-15T07:50:00Z (10 min ago): "
                "EC2 has no capacity for its instance types now (c7g.large, c6g.large)"
            ),
        ),
        (
            replace(SHORT, short_reason=VCPU),
            ["fleet_short", "no_agents"],
            (
                "the AWS account's quota of 32 vCPUs for on-demand instances is used up in this "
                'Region; request at least 38 vCPUs for "Running On-Demand Standard (A, C, D, H, '
                'I, M, R, T, Z) instances" (L-1216C47A) in Service Quotas, 6 more than now'
            ),
        ),
        (
            replace(SHORT, suspended=("AZRebalance", "Launch")),
            ["fleet_suspended", "no_agents"],
            "resume-processes --auto-scaling-group-name joblane-main --scaling-processes Launch",
        ),
        (
            replace(PLAIN, suspended=("AZRebalance",)),
            ["fleet_not_raised", "no_agents"],
            "no more than 2 instances",
        ),
        (
            replace(FAILED, booting=1, raised_ms=NOW - 60_000, limit="broken"),
            ["fleet_boot_failed", "fleet_broken", "fleet_booting", "no_agents"],
            (
                "instance i-0123456789abcdef0 failed its setup: exit code 3: no GPU here; it "
                "booted at 2027-01-15T07:58:00Z (2 min ago), has no agent and is replaced "
                "by fleet main: "
            ),
        ),
        (
            replace(
                FAILED, boot_failed_reason="failed to install its agent: arn:aws:iam::1:role/x"
            ),
            ["fleet_boot_failed", "no_agents"],
            "instance i-0123456789abcdef0 failed to install its agent: \u2026; it booted at",
        ),
        (
            replace(PLAIN, limit="broken", alive=0, in_service=3, desired=3),
            ["fleet_broken", "no_agents"],
            "most of the 3 instances of fleet main have no agent that takes jobs",
        ),
    ],
)
def test_a_queue_without_agents_says_what_its_fleet_lacks(
    record: FleetRecord | None, expected: list[str], words: str
):
    situation = waits(fleets=(fleet(record),))
    assert expected == codes(situation)
    assert words in first(situation).text
    for reason in explain(situation):
        assert set(reason.facts) <= set(KINDS[reason.code].facts), reason


def test_a_busy_fleet_comes_after_its_slots_and_a_limit_of_all_agents_hides_it():
    fleets = (fleet(replace(PLAIN, limit="max")),)
    assert ["no_free_slot", "fleet_max"] == codes(waits(FULL, fleets=fleets))
    assert ["about_to_start"] == codes(waits(READY, fleets=fleets))
    assert ["paused", "no_free_slot"] == codes(waits(FULL, fleets=fleets, queue=PAUSED))
    limited = replace(OPEN, settings=QueueSettings(cluster_threads=0))
    assert ["cluster_limit"] == codes(waits(READY, fleets=fleets, queue=limited))


def test_a_fleet_that_starts_instances_is_named_before_one_that_cannot():
    fleets = (
        fleet(replace(PLAIN, limit="max")),
        fleet(replace(PLAIN, booting=1), "spare"),
        fleet(None, "other"),
    )
    situation = waits(FULL, fleets=fleets)
    assert ["no_free_slot", "fleet_booting", "fleet_max"] == codes(situation)


def test_a_record_that_cannot_be_read_says_so():
    fleets = (replace(fleet(None), unread=True), fleet(replace(PLAIN, limit="max"), "spare"))
    situation = waits(FULL, fleets=fleets)
    assert ["no_free_slot", "fleet_max", "fleet_unread"] == codes(situation)
    assert ["no_agents", "fleet_unread"] == codes(waits(fleets=fleets[:1]))


def test_a_queue_without_a_fleet_says_so():
    assert ["no_agents", "no_fleet"] == codes(waits(fleets=()))
    assert ["no_free_slot", "no_fleet"] == codes(waits(FULL, fleets=()))
    assert ["no_agents"] == codes(waits(fleets=None))


@pytest.mark.parametrize(
    ("text", "types", "kind", "words"),
    [
        ("MaxSpotInstanceCountExceeded - x", ("g5.xlarge",), "spot_quota", "(L-3819A6DF)"),
        ("VcpuLimitExceeded", ("c7g.large",), "quota", "at least 6 vCPUs more for"),
        ("VcpuLimitExceeded", ("c7g.metal",), "quota", "request more vCPUs for"),
        ("There are not enough free addresses in subnet", ("c7g.large",), "addresses", "subnets"),
        ("AccessDenied: arn:aws:iam::123456789012:role/x", ("a1.large",), "permission", "allow"),
        ("Auto Scaling has started no instance for 15 minutes", (), "other", "activities"),
        ("anything else", ("c7g.large",), "other", "scaling activities"),
        (None, ("c7g.large",), "other", "launch template"),
    ],
)
def test_an_error_says_what_to_do(text: str | None, types: tuple[str, ...], kind: str, words: str):
    error = launch_error(text, types, 3, "main")
    assert kind == error.kind
    assert words in error.advice
    assert "123456789012" not in error.meaning
