"""Jobs, agents and types of which every text is an attack on the page that shows it."""

import json
import time
from typing import Any

from joblane.audit.who import Who
from joblane.key.segments import key_hash
from joblane.state.lease import Heartbeat
from joblane.state.lifecycle import State
from joblane.state.timeline import Step
from joblane.typed.definition import TypeDefinition, TypeVersion
from scripts.console.api import Api, wait_for_state
from scripts.console.seeds import RUNS
from scripts.console.stores import Stores

HTML = "<img src=x onerror=attacked('html')>"
SCRIPT = "</textarea></title></script><script>attacked('script')</script>"
LINK = "javascript:attacked('link')"
TEMPLATE = "${attacked('template')} {{constructor.constructor('attacked(1)')()}} <%= attacked(2) %>"
ATTRIBUTE = "\" onmouseover=attacked('attribute') style=position:fixed;inset:0 autofocus onfocus='x"
BIDI = "\u202egnp.exe\u2066 \u200b\ufeff"
CONTROL = (
    "\x1b]8;;javascript:attacked('osc')\x07here\x1b]8;;\x07 \x1b[2J\x1b[999999999m \x9b31m \x07\x08"
)
ALL = (HTML, SCRIPT, LINK, TEMPLATE, ATTRIBUTE, BIDI)
AGENT = "i-attack"
TYPE = "attack"
CONDITION = "http:http://127.0.0.1:1/?\"><img/src=x/onerror=attacked('condition')>"
LONG_LINE = 1_000_000
"""Bytes of the longest line of output."""


def attack(api: Api, stores: Stores) -> dict[str, str]:
    """Make all of it; returns addresses of pages and ids by name, for the console."""
    shell, once = ("sh", "-c"), {"max_attempts": 1}
    key: dict[str, Any] = {"key": [HTML, SCRIPT], "max_active": 1, "max_queued": 5}
    texts = {f"TEXT_{number}": text for number, text in enumerate(ALL)}
    env = {**texts, "RESULT": json.dumps({"result": {HTML: list(ALL)}}), "CONTROL": CONTROL}
    print_all = 'for n in 0 1 2 3 4 5; do eval "echo \\"\\$TEXT_$n\\""; done; echo "$CONTROL"; '
    long_line = f"head -c {LONG_LINE} /dev/zero | tr '\\0' x; echo; echo '{HTML}' >&2; "
    completed = api.submit(
        *shell,
        RUNS + print_all + long_line + 'say "$RESULT"',
        *ALL,
        name=HTML,
        env=env,
        timeout_s=60,
    )
    why = json.dumps({"error": f"{HTML} {LINK}"})
    dead = api.submit(
        *shell, RUNS + 'say "$WHY"; exit 3', name=SCRIPT[:128], env={"WHY": why}, retry=once
    )
    progress = json.dumps({"progress": {"percent": 5, "message": HTML + SCRIPT}})
    active = api.submit(
        *shell,
        RUNS + 'say "$PROGRESS"; sleep 3600',
        name=TEMPLATE[:128],
        env={"PROGRESS": progress},
        concurrency=key,
        timeout_s=7200,
    )
    waiting = api.submit("true", name=ATTRIBUTE[:128], concurrency=key)
    blocked = api.submit("true", name=LINK, requires=[CONDITION])
    group = api.submit(*shell, print_all, env=env, name=HTML, target="group:web", retry=once)
    later = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + 6 * 3600))
    cancelled = api.submit("true", name=HTML, run_at=later)
    api("POST", f"/v1/jobs/{cancelled}/cancel", json={"reason": HTML + SCRIPT})
    api("PUT", "/v1/conditions/app:attack", json={"state": "down", "reason": HTML + SCRIPT})
    schedule = {"every_s": 300, "submission": {"command": list(ALL), "name": HTML}}
    api("POST", "/v1/schedules", json={"name": "attack", **schedule})
    api("POST", "/v1/schedules/attack/pause", json={"reason": HTML + SCRIPT})
    now_ms = int(time.time() * 1000)
    who, step = Who("person", HTML, SCRIPT), Step(State.PENDING, now_ms, 0, HTML)
    failed = stores.put(
        [step, Step(State.ACTIVE, now_ms, 1, HTML, HTML), Step(State.FAILED, now_ms, 1, SCRIPT)],
        name=HTML,
        who=who,
    ).job_id
    _agent(stores, now_ms)
    _type(stores, now_ms, who)
    for job_id, state in {
        completed: "completed",
        dead: "dead",
        active: "active",
        waiting: "waiting",
        blocked: "blocked",
    }.items():
        wait_for_state(api, job_id, state)
    return {
        "completed": completed,
        "dead": dead,
        "active": active,
        "waiting": waiting,
        "blocked": blocked,
        "cancelled": cancelled,
        "failed": failed,
        "group": group,
        "key": f"command/{key_hash([HTML, SCRIPT])}",
    }


def _agent(stores: Stores, now_ms: int) -> None:
    """An instance whose jobs have taken over its agent."""
    stores.agents.beat(
        Heartbeat(
            name=AGENT,
            since_ms=now_ms,
            beat_ms=now_ms,
            threads=1,
            running=0,
            queues=("bulk", HTML),
            isolation=SCRIPT,
            version=HTML,
            trouble=HTML + SCRIPT + LINK,
            labels={HTML: SCRIPT, "link": LINK},
        )
    )
    stores.facts.put(AGENT, {"kernel": HTML, SCRIPT[:40]: LINK, "zone": BIDI}, now_ms // 1000)


def _type(stores: Stores, now_ms: int, who: Who) -> None:
    """A job type; a form is made from its schema."""
    schema = {
        "type": "object",
        "title": HTML,
        "description": SCRIPT,
        "required": [HTML],
        "properties": {
            HTML: {"type": "string", "title": HTML, "description": SCRIPT, "default": ATTRIBUTE},
            "link": {"enum": [LINK, HTML], "default": LINK, "description": LINK},
            "__proto__": {"type": "string"},
            "constructor": {"type": "boolean", "title": TEMPLATE},
        },
    }
    definition = {
        "entry": "attack:run",
        "python": "3.11",
        "bundles": {"arm64": "0" * 64, "x86_64": "0" * 64},
        "description": HTML + SCRIPT,
        "params_schema": schema,
    }
    parsed = TypeDefinition.model_validate_json(json.dumps(definition))
    stores.types.push(stores.tenant, TypeVersion(TYPE, 1, parsed, now_ms, who))
