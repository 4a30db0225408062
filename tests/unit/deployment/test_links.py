"""Links of the console, and prices from which it estimates: what joblane.toml may say of both."""

from typing import Any

import pytest
from pydantic import ValidationError

from joblane.config import Config, Console
from joblane.config.fleet import Fleet
from joblane.deployment.links import MOST_CHARS, PLACEHOLDERS, check_link


@pytest.mark.parametrize(
    "template",
    [
        "https://logs.example.com/?q={job_id}&t={tenant}",
        "https://logs.example.com:8443/{type}/{queue}#agent={agent}",
        "https://traces.example.com/trace/{trace_id}",
        "https://status.example.com",
        "http://localhost:3000/d/jobs?var={job_id}",
        "http://localhost/x",
    ],
)
def test_urls_with_placeholders_after_the_host_are_links(template: str):
    assert template == check_link(template)


@pytest.mark.parametrize(
    ("template", "said"),
    [
        ("javascript:alert(1)", "must begin with https://"),
        ("JavaScript:alert({job_id})", "must begin with https://"),
        ("data:text/html,{job_id}", "must begin with https://"),
        ("http://logs.example.com/", "must begin with https://"),
        ("http://localhost.example.com/", "must begin with https://"),
        ("http://localhost:x@example.com/", "needs a fixed host"),
        (" https://logs.example.com/", "must begin with https://"),
        ("//logs.example.com/", "must begin with https://"),
        ("{type}://logs.example.com/", "must begin with https://"),
        ("https://{tenant}.example.com/", "needs a fixed host"),
        ("https://example.com{type}/", "needs a fixed host"),
        ("https://user:password@example.com/", "needs a fixed host"),
        ("https://example.com\\@evil.example/", "needs a fixed host"),
        ("https://", "needs a fixed host"),
        ("https://example.com/{id}", "unknown placeholder {id}; allowed are {job_id}, {tenant}"),
        ("https://example.com/{}", "unknown placeholder {}"),
        ("https://example.com/{job_id", "a brace without its other one"),
        ("https://example.com/{{job_id}}", "a brace without its other one"),
        ("https://example.com/?q=a b", "a character that a URL has not"),
        ("https://example.com/?q=ä", "a character that a URL has not"),
        ("https://example.com/\n{job_id}", "a character that a URL has not"),
        ('https://example.com/"><script>', "a character that a URL has not"),
        (f"https://example.com/{'x' * MOST_CHARS}", f"{MOST_CHARS} are allowed"),
    ],
)
def test_other_templates_are_refused_with_what_is_allowed(template: str, said: str):
    with pytest.raises(ValueError, match=r".") as raised:
        check_link(template)
    assert said in str(raised.value)


@pytest.mark.parametrize("name", ["", " a", "a" * 41, "<b>", "a\nb", "a/b"])
def test_names_of_links_are_plain_text(name: str):
    with pytest.raises(ValidationError):
        Console(links={name: "https://example.com/"})


def test_links_keep_their_order_and_are_few():
    links = {f"link {n}": f"https://example.com/{n}" for n in reversed(range(10))}
    assert list(links) == [each["name"] for each in config(console={"links": links}).links]
    with pytest.raises(ValidationError, match="at most 10 items"):
        Console(links={**links, "one more": "https://example.com/"})


def test_every_placeholder_is_documented():
    assert {"job_id", "tenant", "type", "queue", "agent", "trace_id"} == set(PLACEHOLDERS)


def config(**tables: Any) -> Config:
    queues = {"small": {"threads": 2}, "large": {"threads": 6}, "none": {}}
    return Config.model_validate({"tenants": {"main": {}}, "queues": queues, **tables, **DEFAULT})


DEFAULT = {"default_queue": "small"}
TYPES = ("c7g.large", "c6g.large")


def test_a_slot_costs_its_part_of_the_instance():
    both = Fleet(
        queues=("small", "large"),
        instance_types=TYPES,
        price_per_hour={"c7g.large": 0.08, "c6g.large": 0.064},
    )
    fleets = {"both": both}
    # Eight slots: as many as the agents' threads, which are those of both queues.
    assert 8 == config(fleets=fleets).slots_of("both")
    expected = {"usd_per_slot_hour_min": 0.008, "usd_per_slot_hour_max": 0.01}
    assert {"small": expected, "large": expected} == config(fleets=fleets).prices


def test_the_range_covers_every_fleet_of_a_queue():
    first = Fleet(queues=("small",), price_per_hour={"c7g.large": 0.08})
    second = Fleet(
        queues=("small",), instance_types=("m7g.large",), price_per_hour={"m7g.large": 0.1}
    )
    found = config(fleets={"first": first, "second": second}).prices
    assert {
        "small": {"usd_per_slot_hour_min": 0.04, "usd_per_slot_hour_max": 0.05},
    } == found


def test_a_queue_of_a_fleet_without_prices_has_none():
    priced = Fleet(queues=("small", "large"), price_per_hour={"c7g.large": 0.08})
    fleets = {"priced": priced, "other": Fleet(queues=("small",))}
    assert {"large"} == set(config(fleets=fleets).prices)
    assert {} == config().prices


@pytest.mark.parametrize(
    ("prices", "said"),
    [
        ({"c7g.large": 0.08}, "lacks 'c6g.large' of instance_types"),
        ({"c7g.xlarge": 0.08}, "names 'c7g.xlarge', which instance_types lacks"),
        ({"c7g.large": 0, "c6g.large": 0.1}, "greater than 0"),
        ({"c7g.large": "a lot", "c6g.large": 0.1}, "valid number"),
    ],
)
def test_prices_are_those_of_all_types_of_the_fleet(prices: dict[str, Any], said: str):
    with pytest.raises(ValidationError, match=said):
        Fleet(queues=("small",), instance_types=TYPES, price_per_hour=prices)
