"""scripts/smoke: proves a deployment in an AWS account, or on the local AWS.

Deploys under a name of its own, tries what a deployment must do, destroys it, deploys again, and
removes everything, also when a step fails or the run is interrupted. Exit code 0 when every step
was right, 1 when one was not.
"""

import argparse
import os
import secrets
import shutil
import sys
from pathlib import Path

from infra.config import load_config
from joblane.config import Config
from scripts.costs.month import BillLine, Month
from scripts.costs.month import Load as Asked
from scripts.costs.page import total
from scripts.costs.prices import DAYS, HOURS
from scripts.costs.resources import Resources, synthesize_stacks
from scripts.local import keeping
from scripts.local.command import run
from scripts.local.progress import say
from scripts.smokes.account import AccountSite, format_config
from scripts.smokes.local_site import LocalSite
from scripts.smokes.runner import Smoke
from scripts.smokes.steps import REMOVAL, STEPS

RUN_HOURS = 0.75
"""For which the costs are said: a run takes about half an hour, one that fails may take longer."""


def main() -> int:
    """Ask, run the steps, print the report."""
    parser = argparse.ArgumentParser(prog="scripts/smoke", description=__doc__)
    parser.add_argument(
        "--local", action="store_true", help="on the local AWS, also if AWS_ENDPOINT_URL is set"
    )
    parser.add_argument(
        "--yes", action="store_true", help="skip the confirmation before costs arise"
    )
    parser.add_argument(
        "--remove", metavar="NAME", help="only remove what an earlier run has left in the account"
    )
    given = parser.parse_args()
    folder = keeping.run_folder("smoke")
    if given.local or os.environ.get("AWS_ENDPOINT_URL"):
        code = report(Smoke(LocalSite(folder), STEPS, REMOVAL))
    else:
        name = given.remove or f"smoke-{secrets.token_hex(3)}"
        if not name.startswith("smoke-"):
            parser.error(f"{name!r} is not the name of a smoke test, which begins with smoke-")
        folder.mkdir(parents=True)
        site = AccountSite(name, folder)
        if not given.remove and not given.yes and not _ask(site, folder):
            shutil.rmtree(folder)
            return 1
        code = report(Smoke(site, () if given.remove else STEPS, REMOVAL))
    if code:
        say(f"Logs are in {folder}, until the next run")
    else:
        shutil.rmtree(folder, ignore_errors=True)
    return code


def report(smoke: Smoke) -> int:
    """Run; print the report, also of a run that was interrupted."""
    try:
        right = smoke.run()
    finally:
        print(smoke.report(), flush=True)
    return 0 if right else 1


def price(config: Config, resources: Resources, jobs: int) -> float:
    """Return what a run costs, in dollars: everything for its hours, and its jobs."""

    def month(jobs_a_day: float) -> list[BillLine]:
        return Month(config, resources, Asked(jobs_a_day, 0, 0)).lines()

    return total(month(0)) * RUN_HOURS / HOURS + total(month(jobs), "jobs") / DAYS


def _ask(site: AccountSite, folder: Path) -> bool:
    """Say what the run costs, and ask."""
    jobs = site.load.rate * site.load.seconds
    file = folder / "joblane.toml"
    file.write_text(format_config(site.name), encoding="utf-8")
    config = load_config(file)
    dollars = price(config, synthesize_stacks(config), jobs)
    say(
        f"This deploys {site.name} to the account of your credentials for about half an hour, with "
        f"two instances and {jobs} jobs.\nBy list prices it costs about ${dollars:.2f}; instances "
        "are billed until they are removed."
    )
    return input("Go on? [y/N] ").strip().lower() == "y"


if __name__ == "__main__":
    sys.exit(run("scripts/smoke", main))
