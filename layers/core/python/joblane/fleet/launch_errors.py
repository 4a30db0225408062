"""What the errors of Auto Scaling mean when it cannot launch an instance, and what to do."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

MOST_WORDS = 240
"""Characters of an error that are shown."""

Kind = Literal["capacity", "quota", "spot_quota", "addresses", "zone", "permission", "other"]
"""What kind of error: EC2 has no instances of these types; a quota of vCPUs; the same for spot
requests; a subnet is full; a type that a zone does not have; a missing permission; another one."""

_KINDS: Mapping[Kind, str] = {
    "spot_quota": r"MaxSpotInstanceCountExceeded|max spot instance count exceeded",
    "quota": r"VcpuLimitExceeded|InstanceLimitExceeded|vCPU limit",
    "capacity": r"InsufficientInstanceCapacity|UnfulfillableCapacity|do not have sufficient"
    r"|no spot capacity|insufficient capacity",
    "addresses": r"InsufficientFreeAddressesInSubnet|free addresses",
    "zone": r"not supported in your requested Availability Zone",
    "permission": r"UnauthorizedOperation|AccessDenied|not authorized|InvalidKMSKey",
}
"""The first that is found; a message may name the error or have its words only."""

_LIMIT = re.compile(r"vCPU limit of (\d+)")

_HIDDEN = (
    re.compile(r"Encoded authorization failure message: \S+"),
    re.compile(r"arn:[\w-]+:\S+"),
    re.compile(r"\b\d{12}\b"),
)
"""Parts of an error that are of no use to a reader, who may be of any tenant."""

_NOISE = re.compile(r"\s*Launching EC2 instance failed\.?\s*$")

_STANDARD = "Standard (A, C, D, H, I, M, R, T, Z)"
_GROUPS = {
    **dict.fromkeys(("a", "c", "d", "h", "i", "im", "is", "m", "r", "t", "z"), _STANDARD),
    **dict.fromkeys(("g", "gr", "vt"), "G and VT"),
    **{family.lower(): family for family in ("DL", "F", "HPC", "Inf", "P", "Trn", "X")},
}
"""Quotas of vCPUs count these families of instance types together."""

_CODES = {
    "Running On-Demand Standard (A, C, D, H, I, M, R, T, Z) instances": "L-1216C47A",
    "All Standard (A, C, D, H, I, M, R, T, Z) Spot Instance Requests": "L-34B43A08",
    "Running On-Demand G and VT instances": "L-DB2E81BA",
    "All G and VT Spot Instance Requests": "L-3819A6DF",
}
"""Codes of quotas in Service Quotas; of the others the name is given alone."""


@dataclass(frozen=True, slots=True)
class LaunchError:
    """An error, and what to do about it: two clauses without a full stop."""

    kind: Kind
    meaning: str
    advice: str
    quotas: tuple[str, ...] = ()
    """Names of the quotas that the instance types count to."""
    request_vcpus: int | None = None
    """Smallest value of the quota with which what is missing can start; None if not known."""


def launch_error(text: str | None, types: Sequence[str], missing: int, fleet: str) -> LaunchError:
    """Explain an error, of a fleet of these instance types that may start `missing` more.

    `text` is None if Auto Scaling starts no instance and gives no error.
    """
    if text is None:
        return LaunchError(
            "other",
            "Auto Scaling starts no instance and gives no error",
            "look at the state and the launch template of its Auto Scaling group",
        )
    said = show_error(text)
    kind: Kind = "other"
    for name, pattern in _KINDS.items():
        if re.search(pattern, text, re.IGNORECASE):
            kind = name
            break
    if kind in {"quota", "spot_quota"}:
        return _quota(text, types, missing, spot=kind == "spot_quota")
    if kind == "capacity":
        return LaunchError(
            kind,
            f"EC2 has no capacity for its instance types now ({_join_types(types)})",
            f"Auto Scaling goes on trying; more instance_types of fleets.{fleet} in joblane.toml, "
            "or subnets in more zones, make it likelier to succeed",
        )
    advice: dict[Kind, str] = {
        "addresses": "give the fleets' network larger subnets, or more of them",
        "zone": f"remove that type from fleets.{fleet} in joblane.toml, or that zone's subnet",
        "permission": "an administrator of the AWS account has to allow it to Auto Scaling's role",
    }
    return LaunchError(
        kind,
        said if said.startswith("Auto Scaling ") else f"Auto Scaling says: {said}",
        advice.get(kind, "look at the scaling activities of its Auto Scaling group"),
    )


def show_error(text: str) -> str:
    """An error of AWS in one line, without ARNs and numbers of accounts."""
    for hidden in _HIDDEN:
        text = hidden.sub("\u2026", text)
    text = _NOISE.sub("", " ".join(text.split())).rstrip(". ")
    return text if len(text) <= MOST_WORDS else f"{text[: MOST_WORDS - 1].rstrip('. ')}\u2026"


def _quota(text: str, types: Sequence[str], missing: int, *, spot: bool) -> LaunchError:
    quotas = tuple(dict.fromkeys(filter(None, (_quota_of(name, spot=spot) for name in types))))
    found = _LIMIT.search(text)
    limit = int(found[1]) if found else None
    each = [vcpus(name) for name in types]
    least = None if not each or None in each else max(n or 0 for n in each) * missing
    value = None if limit is None or least is None else limit + least
    names = " and ".join(
        f'"{name}" ({_CODES[name]})' if name in _CODES else f'"{name}"' for name in quotas
    )
    of = names or "the quota of its instance types"
    if value is not None and least:
        advice = f"request at least {value} vCPUs for {of} in Service Quotas, {least} more than now"
    elif least:
        advice = f"request at least {least} vCPUs more for {of} in Service Quotas"
    else:
        advice = f"request more vCPUs for {of} in Service Quotas"
    kind = "spot instances" if spot else "on-demand instances"
    size = "" if limit is None else f" of {limit} vCPUs"
    return LaunchError(
        "spot_quota" if spot else "quota",
        f"the AWS account's quota{size} for {kind} is used up in this Region",
        advice,
        quotas,
        value,
    )


def _quota_of(instance_type: str, *, spot: bool) -> str | None:
    """Name of the quota that an instance type counts to; None if it is not known."""
    family = re.match(r"[a-z]+", instance_type)
    group = _GROUPS.get(family[0]) if family else None
    if group is None:
        return None
    return f"All {group} Spot Instance Requests" if spot else f"Running On-Demand {group} instances"


def vcpus(instance_type: str) -> int | None:
    """VCPUs of an instance type by its size; None if the name does not say."""
    family, _, size = instance_type.partition(".")
    if family.startswith(("hpc", "mac", "u-")):
        return None
    if size == "large":
        return 2
    found = re.fullmatch(r"(?:metal-(\d+)xl|(\d*)xlarge)", size)
    return 4 * int(found[1] or found[2] or 1) if found else None


def _join_types(types: Sequence[str]) -> str:
    """Instance types for a sentence: three, and how many more."""
    most = 3
    rest = f" and {len(types) - most} more" if len(types) > most else ""
    return ", ".join(types[:most]) + rest
