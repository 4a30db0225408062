"""scripts/screenshots: writes the pictures of the console in docs/console."""

import sys
from dataclasses import dataclass
from typing import Literal

from playwright.sync_api import Browser

from joblane.contract.access import AnyRole
from scripts.console.browser import Console, chromium
from scripts.console.png import small_png
from scripts.console.seeds import Seeds, seed
from scripts.console.stores import Stores, activity
from scripts.local import keeping
from scripts.local.cloud import Cloud, running_cloud
from scripts.local.command import listen_on, port_from, run
from scripts.local.emulator import ROOT
from scripts.local.people import Person, add_people
from scripts.local.progress import say, shown_step

FOLDER = ROOT / "docs" / "console"
MOST_BYTES = 60_000
DAY_MINUTES = 24 * 60


@dataclass(frozen=True)
class Picture:
    """One page as somebody sees it."""

    name: str
    route: str
    role: AnyRole = "admin"
    scheme: Literal["light", "dark"] = "light"
    width: int = 1280
    height: int = 800
    region: str = ""
    """Name of the region that it begins with; empty for the top of the page."""


PICTURES = (
    Picture("overview", ""),
    Picture("overview-dark", "", scheme="dark"),
    Picture("overview-phone", "", width=360, height=740),
    Picture("jobs", "jobs"),
    Picture("jobs-phone", "jobs", width=360, height=740),
    Picture("job-waits", "jobs/{waiting}"),
    Picture("job-attempts", "jobs/{attempts}"),
    Picture("job-output-dark", "jobs/{completed}", scheme="dark", region="Output"),
    Picture("job-phone", "jobs/{active}", width=360, height=740),
    Picture("submit", "submit?from={completed}"),
    Picture("groups", "groups"),
    Picture("group", "groups/{partial_failure}"),
    Picture("group-array", "groups/{array}", height=1000),
    Picture("schedules", "schedules"),
    Picture("schedule", "schedules/nightly"),
    Picture("queues", "queues"),
    Picture("queue", "queues/default", role="platform"),
    Picture("queue-dark", "queues/default", role="platform", scheme="dark"),
    Picture("dead", "dead"),
    Picture("conditions", "conditions"),
    Picture("keys", "keys"),
    Picture("key", "keys/{key}"),
    Picture("types", "types"),
    Picture("type", "types/sync-tickets"),
    Picture("agents", "agents", role="platform"),
    Picture("agents-dark", "agents", role="platform", scheme="dark"),
    Picture("agent", "agents/web-1", role="platform"),
    Picture("fleets", "fleets", role="platform"),
    Picture("audit", "audit"),
    Picture("settings", "settings"),
)


def main() -> int:
    """Start everything, make the seeds, and take all pictures."""
    port = port_from(sys.argv[1:], "scripts/screenshots", __doc__ or "")
    with running_cloud(keeping.run_folder("screenshots"), listen_on(port), shown_step) as cloud:
        with shown_step("making jobs"):
            seeds = seed(cloud)
            activity(Stores(cloud), DAY_MINUTES)
        people = {person.role: person for person in add_people(cloud)}
        with shown_step("taking pictures"), chromium() as browser:
            take(browser, cloud, people, seeds)
    say(f"{len(PICTURES)} pictures are in {FOLDER}")
    return 0


def take(browser: Browser, cloud: Cloud, people: dict[AnyRole, Person], seeds: Seeds) -> None:
    """Take the pictures, those of a role one after the other. Old ones are removed."""
    FOLDER.mkdir(exist_ok=True)
    for old in FOLDER.glob("*.png"):
        old.unlink()
    blank = browser.new_page()
    for role in {picture.role: None for picture in PICTURES}:
        context = browser.new_context(reduced_motion="reduce", timezone_id="Europe/Berlin")
        console = Console(context.new_page(), cloud.url)
        console.log_in(people[role])
        for picture in PICTURES:
            if picture.role != role:
                continue
            page = console.page
            page.set_viewport_size({"width": picture.width, "height": picture.height})
            page.emulate_media(color_scheme=picture.scheme)
            console.go(picture.route.format(**seeds.names()))
            if picture.region:
                page.get_by_role("region", name=picture.region).evaluate(
                    "region => region.closest('section').scrollIntoView()"
                )
            data = small_png(blank, page.screenshot())
            if len(data) > MOST_BYTES:
                raise RuntimeError(f"{picture.name}.png has {len(data)} bytes, over {MOST_BYTES}")
            (FOLDER / f"{picture.name}.png").write_bytes(data)
        context.close()
    blank.close()


if __name__ == "__main__":
    sys.exit(run("scripts/screenshots", main))
