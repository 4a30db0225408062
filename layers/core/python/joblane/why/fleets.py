"""Why a fleet has no more instances, as its record says it: what the scaler decided last."""

from collections.abc import Iterator

from joblane.fleet.absence import BootFailure
from joblane.fleet.launch_errors import LaunchError, launch_error, show_error
from joblane.fleet.record import FleetRecord
from joblane.formats.text import some
from joblane.formats.times import rfc3339
from joblane.why.reason import Fact, Reason
from joblane.why.situation import Fleet, Situation
from joblane.why.words import at, without_ids

LOOK = "joblane top --once"

LAUNCH = "Launch"
"""The process of an Auto Scaling group without which it starts no instance."""


def of_queue(s: Situation) -> tuple[Reason, ...]:
    """Why the fleets of a job's queue do not give it an agent; the first one decides.

    Nothing is said of a fleet without a record: its agents are started in another way, or the
    scaler has not run yet; nor of one whose record cannot be read (`unread`).
    """
    if s.fleets is None:
        return ()
    if not s.fleets:
        return (_no_fleet(s.head.queue),)
    queue = s.head.queue
    found = [reason for fleet in s.fleets for reason in of_fleet(fleet, s.now_ms, queue)]
    if not found:
        return tuple(
            _not_raised(fleet, fleet.record, s.now_ms) for fleet in s.fleets if fleet.record
        )
    # What comes by itself is first: it is there before somebody has changed the rest. What fails
    # at its boot does not come.
    fails = {reason.facts["fleet"] for reason in found if reason.code == "fleet_boot_failed"}
    return tuple(
        sorted(found, key=lambda r: r.code != "fleet_booting" or r.facts["fleet"] in fails)
    )


def unread(s: Situation) -> tuple[Reason, ...]:
    """Of which fleets of a job's queue nothing is known: no reason to wait, so it comes last."""
    return tuple(_unread(fleet) for fleet in s.fleets or () if fleet.unread)


def of_fleet(fleet: Fleet, now_ms: int, queue: str | None = None) -> tuple[Reason, ...]:
    """Why a fleet has no more instances for a queue; empty if nothing keeps it from having them.

    Without a queue, for any of its queues.
    """
    record = fleet.record
    return () if record is None else tuple(_of_record(fleet, record, queue, now_ms))


def _of_record(
    fleet: Fleet, record: FleetRecord, queue: str | None, now_ms: int
) -> Iterator[Reason]:
    if record.stale(now_ms):
        yield _silent(fleet, record, now_ms)
        return  # it says nothing about now
    seen = queue is not None and record.blind_queues and queue not in record.blind_queues
    if record.blind_since_ms is not None and not seen:
        yield _blind(fleet, record, record.blind_since_ms, queue, now_ms)
        return
    suspended = LAUNCH in record.suspended
    if suspended:
        yield _suspended(fleet, record, now_ms)
    elif record.short_since_ms is not None:
        yield _short(fleet, record, record.short_since_ms, now_ms)
    if record.boot_failure is not None:
        yield _boot_failed(fleet, record, record.boot_failure, now_ms)
    if record.limit == "broken":
        yield _broken(fleet, record, now_ms)
    comes = record.booting
    if not suspended and not record.short:
        comes = max(comes, record.desired - record.in_service)
    if comes > 0:
        yield _booting(fleet, record, comes, now_ms)
    if record.limit == "max":
        yield _largest(fleet, record, now_ms)


def _no_fleet(queue: str) -> Reason:
    return Reason(
        "no_fleet",
        f"no fleet of joblane.toml serves queue {queue}, so no agent is started for it by itself: "
        "start one, or add the queue to a fleet and deploy",
        {"queue": queue},
        ("joblane agents ls",),
    )


def _unread(fleet: Fleet) -> Reason:
    return Reason(
        "fleet_unread",
        f"what the function scaler last decided for fleet {fleet.name} cannot be read at the "
        "moment",
        {"fleet": fleet.name},
        (LOOK,),
    )


def _silent(fleet: Fleet, record: FleetRecord, now_ms: int) -> Reason:
    return Reason(
        "scaler_silent",
        f"the function scaler, which runs every minute, has written nothing about fleet "
        f"{fleet.name} since {at(record.decided_ms, now_ms)}, so no instance of it is started: see "
        "the function's alarm and log",
        _facts(fleet, record),
        (LOOK,),
    )


def _blind(
    fleet: Fleet, record: FleetRecord, since_ms: int, queue: str | None, now_ms: int
) -> Reason:
    queues = record.blind_queues if queue is None else (queue,)
    of = f" for {'queue' if len(queues) == 1 else 'queues'} {', '.join(queues)}" if queues else ""
    what = "" if record.blind_reason is None else f": {show_error(record.blind_reason)}"
    return Reason(
        "scaler_blind",
        f"the function scaler has not been able to read all that it decides by since "
        f"{at(since_ms, now_ms)}: fleet {fleet.name} may not grow{of} until it can{what}",
        {
            **_facts(fleet, record),
            "since_at": rfc3339(since_ms),
            "error": None if record.blind_reason is None else show_error(record.blind_reason),
        },
        (LOOK,),
    )


def _suspended(fleet: Fleet, record: FleetRecord, now_ms: int) -> Reason:
    since_ms = record.below_since_ms
    since = "" if since_ms is None else f"; {_have(fleet, record)} since {at(since_ms, now_ms)}"
    return Reason(
        "fleet_suspended",
        f"the process {LAUNCH} of the Auto Scaling group {fleet.group} is suspended, so fleet "
        f"{fleet.name} starts no instance until somebody resumes it{since}: aws autoscaling "
        f"resume-processes --auto-scaling-group-name {fleet.group} --scaling-processes {LAUNCH}",
        {
            **_facts(fleet, record),
            "group": fleet.group,
            "suspended": list(record.suspended),
            "since_at": None if since_ms is None else rfc3339(since_ms),
        },
        (LOOK,),
    )


def _short(fleet: Fleet, record: FleetRecord, since_ms: int, now_ms: int) -> Reason:
    error = _error(fleet, record)
    return Reason(
        "fleet_short",
        f"{_have(fleet, record)} since {at(since_ms, now_ms)}: {error.meaning}; {error.advice}",
        {
            **_facts(fleet, record),
            "since_at": rfc3339(since_ms),
            "kind": error.kind,
            "error": None if record.short_reason is None else show_error(record.short_reason),
            "quotas": list(error.quotas),
            "request_vcpus": error.request_vcpus,
        },
        (LOOK,),
    )


def _error(fleet: Fleet, record: FleetRecord) -> LaunchError:
    missing = max(0, max(record.max, record.desired) - record.in_service)
    return launch_error(record.short_reason, fleet.instance_types, missing, fleet.name)


def _boot_failed(fleet: Fleet, record: FleetRecord, failure: BootFailure, now_ms: int) -> Reason:
    what = without_ids(show_error(failure.reason))
    return Reason(
        "fleet_boot_failed",
        f"instance {failure.instance} {what}; it booted at {at(failure.booted_ms, now_ms)}, has no "
        f"agent and is replaced by fleet {fleet.name}: correct what the next one will meet as well "
        f"(packages, setup and ami of fleets.{fleet.name} in joblane.toml) and deploy",
        {
            **_facts(fleet, record),
            "instance": failure.instance,
            "booted_at": rfc3339(failure.booted_ms),
            "failure": what,
        },
        ("joblane agents ls", LOOK),
    )


def _broken(fleet: Fleet, record: FleetRecord, now_ms: int) -> Reason:
    return Reason(
        "fleet_broken",
        f"most of the {some(record.in_service, 'instance')} of fleet {fleet.name} have no agent "
        f"that takes jobs ({record.alive} had one at {at(record.decided_ms, now_ms)}), so one more "
        "instance is tried at a time: find out on one of them why its agent does not work, with "
        "journalctl -u joblane-agent",
        _facts(fleet, record),
        ("joblane agents ls", LOOK),
    )


def _booting(fleet: Fleet, record: FleetRecord, count: int, now_ms: int) -> Reason:
    since_ms = record.raised_ms if record.below_since_ms is None else record.below_since_ms
    since = "" if since_ms is None else f" since {at(since_ms, now_ms)}"
    more = "; more are asked for each minute" if record.limit == "step" else ""
    verb, their = ("starts", "its agent takes") if count == 1 else ("start", "their agents take")
    return Reason(
        "fleet_booting",
        f"{some(count, 'instance')} of fleet {fleet.name} {verb}{since}: {their} jobs as soon as "
        f"the boot is over{more}",
        {
            **_facts(fleet, record),
            "count": count,
            "since_at": None if since_ms is None else rfc3339(since_ms),
        },
        (LOOK,),
    )


def _largest(fleet: Fleet, record: FleetRecord, now_ms: int) -> Reason:
    if record.max < fleet.max_size:
        what = (
            f"somebody set that at the Auto Scaling group {fleet.group}, joblane.toml has max_size "
            f"{fleet.max_size}"
        )
    else:
        what = f"wait for jobs to end, or raise max_size of fleets.{fleet.name} in joblane.toml and"
        what += " deploy"
    return Reason(
        "fleet_max",
        f"fleet {fleet.name} may have {some(record.max, 'instance')} and no more, as of "
        f"{at(record.decided_ms, now_ms)}: {what}",
        {**_facts(fleet, record), "max_size": fleet.max_size},
        (LOOK,),
    )


def _not_raised(fleet: Fleet, record: FleetRecord, now_ms: int) -> Reason:
    return Reason(
        "fleet_not_raised",
        f"no more than {some(record.desired, 'instance')} of fleet {fleet.name} had been asked for "
        f"at {at(record.decided_ms, now_ms)}; the function scaler decides every minute",
        _facts(fleet, record),
        (LOOK,),
    )


def _have(fleet: Fleet, record: FleetRecord) -> str:
    return (
        f"fleet {fleet.name} has {record.in_service} of {some(record.desired, 'wanted instance')}"
    )


def _facts(fleet: Fleet, record: FleetRecord) -> dict[str, Fact]:
    return {
        "fleet": fleet.name,
        "decided_at": rfc3339(record.decided_ms),
        "desired": record.desired,
        "in_service": record.in_service,
        "max": record.max,
        "booting": record.booting,
        "alive": record.alive,
        "backlog": record.backlog,
    }
