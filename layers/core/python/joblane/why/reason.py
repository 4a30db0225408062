"""A reason why a job is where it is, and the table of all kinds of reasons."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

Code = Literal[
    "about_to_start",
    "agent_lost",
    "agent_note",
    "agents_in_trouble",
    "agents_lack",
    "agents_silent",
    "agents_unavailable",
    "assigned_agent",
    "backoff",
    "cancel_requested",
    "cluster_limit",
    "condition",
    "condition_test",
    "deadline",
    "disk_full",
    "ended",
    "fleet_boot_failed",
    "fleet_booting",
    "fleet_broken",
    "fleet_max",
    "fleet_not_raised",
    "fleet_short",
    "fleet_suspended",
    "fleet_unread",
    "group_members",
    "jobs_ahead",
    "key_held",
    "key_queue",
    "last_attempt",
    "member_not_begun",
    "member_retry",
    "message_lost_hint",
    "no_agents",
    "no_fleet",
    "no_free_slot",
    "outcome",
    "paused",
    "queue_gone",
    "queue_retired",
    "recorded",
    "requeue_late",
    "run_at",
    "running",
    "running_limit",
    "scaler_blind",
    "scaler_silent",
    "settings_changed",
    "thread_limit",
    "too_large",
]
"""The kinds of reasons. Programs depend on these names: none is ever renamed."""

Fact = str | int | float | bool | list[str] | None


@dataclass(frozen=True, slots=True)
class Reason:
    """One reason: a sentence for people, the same as values for programs, and what to do."""

    code: Code
    text: str
    """A sentence without its full stop; times in it are RFC 3339 in UTC."""
    facts: Mapping[str, Fact]
    """Named as in `KINDS`. Times end in `_at` (RFC 3339, UTC), durations in `_s` (seconds)."""
    commands: tuple[str, ...] = ()
    """Commands of the command line that show more or change it; empty if nothing is to be done."""


@dataclass(frozen=True, slots=True)
class Kind:
    """What a code means."""

    meaning: str
    facts: tuple[str, ...]
    """Names of the facts that such a reason may have."""


_OF_MEMBER = (
    "group",
    "members",
    "begun",
    "placed",
    "begun_at",
    "before",
    "max_concurrency",
    "stopped",
)

_AGENTS = ("alive", "more", "age_s")
_FLEET = (
    "fleet",
    "decided_at",
    "desired",
    "in_service",
    "max",
    "booting",
    "alive",
    "backlog",
)

KINDS: Mapping[Code, Kind] = {
    "paused": Kind(
        "The queue is paused: no agent starts its jobs.",
        ("queue", "since_at", "changed_by", "may_change"),
    ),
    "queue_gone": Kind(
        "joblane.toml has the job's queue no more: no agent gets the job until it is moved to "
        "another queue, or the queue is back.",
        ("queue",),
    ),
    "queue_retired": Kind(
        "The queue is retired, and its waiting jobs move to another one. `misfit` says why that "
        "one does not take this job, which then stays.",
        ("queue", "moves_to", "misfit", "next_at"),
    ),
    "thread_limit": Kind(
        "`threads` of the queue: an agent runs no more of its jobs at once.",
        ("queue", "threads", "agents", "running", *_AGENTS),
    ),
    "cluster_limit": Kind(
        "`cluster_threads` of the queue: the agents have used up their shares of it.",
        ("queue", "cluster_threads", "agents", "running", "each", *_AGENTS),
    ),
    "running_limit": Kind(
        "`jobs_running` of the tenant: the agents have used up their shares of it.",
        ("limit", "agents", "running", *_AGENTS),
    ),
    "too_large": Kind(
        "No fleet of the queue gives a job so much.", ("queue", "field", "asked", "most")
    ),
    "no_agents": Kind(
        "No agent that serves the queue is alive.",
        ("queue", "last_agent", "last_seen_at", "others_alive", *_AGENTS),
    ),
    "agents_unavailable": Kind(
        "All live agents of the queue are cordoned or draining.",
        ("queue", "cordoned", "draining", "agent", *_AGENTS),
    ),
    "agents_silent": Kind(
        "Agents of the queue have sent no heartbeat for half a minute or longer.",
        ("queue", "silent", "agent", "last_seen_at", *_AGENTS),
    ),
    "agents_in_trouble": Kind(
        "Agents of the queue say that they take no jobs, and why.",
        ("queue", "troubled", "agent", "trouble", *_AGENTS),
    ),
    "agents_lack": Kind(
        "Agents of the queue cannot give the job what it asks for: a limit, more memory or disk "
        "than they have for a job, or network egress.",
        ("queue", "lacking", "agent", "lacks", *_AGENTS),
    ),
    "disk_full": Kind(
        "Agents with free slots have too little disk free for what the job puts there: its input "
        "files, its bundle, its work directory (`disk_mb`) and its output. `agent` is one that has "
        "most of it free.",
        ("queue", "agents", "agent", "asked_mb", "free_mb", "most_mb", *_AGENTS),
    ),
    "no_free_slot": Kind(
        "All slots of the agents are taken.",
        ("queue", "agents", "slots", "running", *_AGENTS),
    ),
    "no_fleet": Kind(
        "No fleet of joblane.toml serves the queue: no agent is started for it by itself.",
        ("queue",),
    ),
    "fleet_booting": Kind(
        "Instances of a fleet of the queue start: how many, and since when.",
        (*_FLEET, "count", "since_at"),
    ),
    "fleet_boot_failed": Kind(
        "The last instance of a fleet of the queue that booted failed to install its packages, its "
        "setup or its agent.",
        (*_FLEET, "instance", "booted_at", "failure"),
    ),
    "fleet_max": Kind(
        "A fleet of the queue has as many instances as it may have.", (*_FLEET, "max_size")
    ),
    "fleet_short": Kind(
        "Auto Scaling cannot get the instances of a fleet. `kind` is `capacity`, `quota`, "
        "`spot_quota`, `addresses`, `zone`, `permission` or `other`.",
        (*_FLEET, "since_at", "kind", "error", "quotas", "request_vcpus"),
    ),
    "fleet_suspended": Kind(
        "The process Launch of a fleet's Auto Scaling group is suspended.",
        (*_FLEET, "group", "suspended", "since_at"),
    ),
    "fleet_unread": Kind(
        "What the scaler decided for a fleet of the queue cannot be read at the moment.", ("fleet",)
    ),
    "fleet_broken": Kind(
        "Most instances of a fleet have no agent that takes jobs, so one more is tried at a time.",
        _FLEET,
    ),
    "fleet_not_raised": Kind(
        "The scaler has not yet asked for an instance for what waits; it decides every minute, and "
        "sooner after a submission.",
        _FLEET,
    ),
    "scaler_blind": Kind(
        "The scaler cannot read all that it decides by: the fleet may not grow until it can.",
        (*_FLEET, "since_at", "error"),
    ),
    "scaler_silent": Kind(
        "The scaler, which runs every minute, has written nothing about a fleet for ten minutes.",
        _FLEET,
    ),
    "agent_note": Kind(
        "What an agent that had the job's message wrote into the job: it waits for memory or disk "
        "there, for a slot, or for its tenant's limit. The note has no time.",
        ("note",),
    ),
    "jobs_ahead": Kind(
        "Other messages wait in the lane, and in lanes that are served first. The numbers are "
        "SQS's estimates, of all tenants; a lane has no strict order, so the job's place in it is "
        "not known.",
        ("queue", "lane", "in_lane", "in_higher_lanes", "free"),
    ),
    "settings_changed": Kind(
        "An agent has a free slot for it, and the queue was resumed or given other limits so "
        "lately that agents may not have read it yet.",
        ("queue", "changed_at", "changed_by", "read_by_at"),
    ),
    "about_to_start": Kind(
        "Nothing holds it up: an agent has a free slot for it.",
        ("queue", "free", "waits_s", *_AGENTS),
    ),
    "message_lost_hint": Kind(
        "Nothing that the API can see holds it up, for a minute or longer: its message may be "
        "hidden or lost.",
        ("queue", "free", "waits_s", "in_lane", "in_flight", *_AGENTS),
    ),
    "assigned_agent": Kind(
        "Only one agent may run it: how that one is, and when it must have started the job.",
        ("agent", "alive", "mode", "trouble", "running", "slots", "last_seen_at", "reply_by_at"),
    ),
    "last_attempt": Kind(
        "How the attempt before ended.", ("attempt", "max_attempts", "outcome", "exit_code")
    ),
    "backoff": Kind(
        "It waits between two attempts.", ("next_at", "wait_s", "attempt", "max_attempts")
    ),
    "run_at": Kind("Its earliest start has not come.", ("run_at", "wait_s")),
    "recorded": Kind("Nothing more is known than the job's own timeline says.", ("since_at",)),
    "requeue_late": Kind(
        "The requeue function, which runs every minute, should have moved the job on.",
        ("due_at", "late_s"),
    ),
    "deadline": Kind("Its deadline passes, or has passed.", ("deadline", "left_s")),
    "key_held": Kind(
        "Other jobs have all slots of its key; the first of them by name and state.",
        ("type", "key", "active", "max_active", "holders", "holder_state", "holder_reason"),
    ),
    "key_queue": Kind(
        "Its place among the jobs that wait for the key.", ("type", "key", "position", "queued")
    ),
    "condition": Kind(
        "The condition that it waits for, and what the last test found.",
        ("condition", "since_at", "found", "tests", "releases", "gives_up_at"),
    ),
    "condition_test": Kind(
        "When the condition is tested next.", ("condition", "next_test_at", "late_s")
    ),
    "group_members": Kind(
        "The members of the group that have not ended.",
        ("members", "begun", "ended", "completed", "open", "looked_at", "open_states", "first"),
    ),
    "member_not_begun": Kind(
        "A member of a group has not begun: what it waits for, or why it is not to begin. `before` "
        "is how many members begin or are retried before it.",
        _OF_MEMBER,
    ),
    "member_retry": Kind(
        "A member of a group was retried, and runs again when there is room.", _OF_MEMBER
    ),
    "cancel_requested": Kind("It was asked to stop.", ("requested", "agent")),
    "agent_lost": Kind(
        "The agent that runs it is gone, silent, or does not know the job.",
        ("agent", "last_seen_at", "lease_ends_at", "restartable"),
    ),
    "running": Kind(
        "It runs: since when, where, what it reported last, and when it is stopped.",
        (
            "agent",
            "since_at",
            "ran_s",
            "attempt",
            "max_attempts",
            "percent",
            "message",
            "reported_at",
            "stops_at",
        ),
    ),
    "ended": Kind(
        "How it ended.",
        ("ended_at", "outcome", "exit_code", "signal", "attempts", "resubmitted_as"),
    ),
    "outcome": Kind(
        "What the end of the last attempt means for the next one.",
        ("outcome", "exit_code", "memory_mb", "timeout_s"),
    ),
}
"""Every kind of reason; docs/reference/why.md is made from it."""
