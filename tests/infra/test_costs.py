"""What scripts/cost counts in the templates, and that the documents say the same."""

import os
import re
from dataclasses import replace
from functools import partial

import pytest

from scripts.costs.month import Load, Month
from scripts.costs.page import IDLE, MILLION, PAGE, parts, total
from scripts.costs.resources import Resources, count
from scripts.docs.reference import with_parts
from tests.infra.synthesis import ROOT, Deployment
from tests.infra.test_snapshot import UPDATE

WATCHED = ("alarms", "composite alarms", "custom metrics", "dashboards")


def resources(deployment: Deployment) -> Resources:
    return count(deployment.templates.values(), deployment.config.name)


def test_the_page_of_costs_says_what_scripts_cost_counts(production: Deployment):
    written = PAGE.read_text(encoding="utf-8")
    command = "scripts/test --update-snapshot infra"
    now = with_parts(written, parts(production.config, resources(production)), command)
    if os.environ.get(UPDATE):
        PAGE.write_text(now, encoding="utf-8")
        written = now
    assert now == written, f"{command} writes it"


def test_prose_has_the_same_figures(production: Deployment):
    has = resources(production)
    month = partial(Month, production.config, has)
    idle, million = month(IDLE).lines(), month(MILLION).lines()
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    found = re.search(
        r"about\s+\$(\d+)\s+a\s+month\s+without\s+jobs,\s+and\s+\$(\d+)\s+for", readme
    )
    assert found is not None, "README.md says both figures"
    assert [f"{total(idle):.0f}", f"{total(million, 'jobs'):.0f}"] == [*found.groups()]
    idle_again = re.search(r"costs about \$(\d+) a month when idle\. \$(\d+) of it is", readme)
    assert idle_again is not None, "README.md begins with the same figure"
    clients = [line for line in idle if line.what == "machine clients"]
    assert [f"{total(idle):.0f}", f"{total(clients):.0f}"] == [*idle_again.groups()]
    page = PAGE.read_text(encoding="utf-8")
    (polls,) = (line for line in idle if line.what.startswith("polls of queues"))
    assert f"all the time: ${polls.dollars:.2f} a" in page
    watched = [line for line in idle if line.what in WATCHED]
    assert f"and one for each queue | ${total(watched):.2f};" in page
    one = Month(production.config, has, Load(1, 1, 0)).lines()
    volumes, addresses, *rest = [line.dollars for line in one if line.group == "instances"][1:]
    assert f"volume of {has.volume_gb} GB (${volumes:.2f} a month)" in page
    assert f"address (${addresses:.2f})" in page
    assert f"reads of settings (${sum(rest):.2f} with one queue)" in page
    counting = [line for line in million if "counters" in line.what]
    projector = [line for line in million if " of projector" in line.what]
    share = sum(line.dollars for line in (*counting, *projector)) / total(million, "jobs")
    assert 0.42 < share < 0.49, "the page says: nearly half of it"


def test_what_is_declared_is_counted(production: Deployment, laptop: Deployment):
    few, many = resources(production), resources(laptop)
    # A client for each machine of the tenants and of the platform, none for people.
    machines = [*laptop.config.platform.machines]
    machines += [name for tenant in laptop.config.tenants.values() for name in tenant.machines]
    assert (1, len(machines)) == (few.machines, many.machines)
    # Of dead letters, `alternate` and schedules, and of notifications, traces and the export.
    assert [3, 6] == [few.letter_readers, many.letter_readers]
    assert len(production.resources("AWS::CloudWatch::Alarm")) == few.alarms > 0
    watched = [line for line in Month(production.config, few, IDLE).lines() if line.what in WATCHED]
    assert 1 < total(watched) < 2.5, "the level basic"
    assert len(production.resources("AWS::Logs::MetricFilter")) == few.log_metrics > 0
    tables = ("jobs", "agents", "keys", "settings", "types")
    assert {f"joblane-{table}" for table in tables} == few.tables["requeue"]
    schedules = [r for r in production.properties("AWS::Events::Rule") if "ScheduleExpression" in r]
    assert len(schedules) == len(few.scheduled)
    assert 43_800 == round(few.scheduled["requeue"])
    # The digest, once a day.
    assert {"dead_letter"} == many.scheduled.keys() - few.scheduled.keys() - {"scaler"}
    assert 30 == round(many.scheduled["dead_letter"])
    # Functions have one size, which the lines of all of them take; but for the console's.
    sizes = {
        each["MemorySize"]
        for each in production.properties("AWS::Lambda::Function")
        if not each["FunctionName"].endswith("-console")
    }
    assert {few.memory_gb * 1024} == sizes


@pytest.mark.parametrize(
    ("what", "more"),
    [
        ("machine clients", {"machines": 2}),
        ("alarms", {"alarms": 99}),
        ("composite alarms", {"composite_alarms": 99}),
        ("dashboards", {"dashboards": 99}),
        ("custom metrics", {"log_metrics": 99}),
        ("polls of queues by Lambda", {"letter_readers": 99}),
    ],
)
def test_more_of_a_resource_costs_more(production: Deployment, what: str, more: dict[str, int]):
    def dollars(has: Resources) -> float:
        (line,) = (x for x in Month(production.config, has, IDLE).lines() if x.what == what)
        return line.dollars

    has = resources(production)
    assert dollars(has) < dollars(replace(has, **more))  # type: ignore[arg-type]
