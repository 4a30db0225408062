"""How long after its second what a schedule starts runs, on the local default.

`scripts/up` first, then `source .local/env && scripts/bench schedules`. Thirty schedules are due
two seconds apart, a minute and more after they are saved, each once; each runs `true`. The figures
are milliseconds from the due time to the submission of the job (its first step) and to the claim by
an agent. Exit code 1: one was claimed later than 1.5 s after its second.
"""

import json
import statistics
import sys
import time
from datetime import datetime
from typing import Any

from joblane import Client, ConfigError
from joblane.client.calls import Request
from joblane.formats.times import rfc3339

STARTS = 30
APART_S = 2
FIRST_S = 75
MOST_MS = 1500


def main() -> int:
    """Print median and worst."""
    try:
        client = Client.from_env()
    except ConfigError as error:
        print(f"bench schedules: {error}", file=sys.stderr)
        return 78

    def ask(method: str, path: str, body: object = None) -> Any:
        sender = client._connection  # noqa: SLF001 - any route
        content = None if body is None else json.dumps(body).encode()
        headers = {"Content-Type": "application/json"}
        return sender.send(Request(method, path, content=content, headers=headers))

    with client:
        first_s = int(time.time()) + FIRST_S
        names = [f"bench-{first_s}-{number}" for number in range(STARTS)]
        for number, name in enumerate(names):
            start_ms = (first_s + APART_S * number) * 1000
            ask(
                "POST",
                "/v1/schedules",
                {
                    "name": name,
                    "every_s": 86_400,
                    "start": rfc3339(start_ms),
                    "end": rfc3339(start_ms + 1000),
                    "submission": {"command": ["true"]},
                },
            )
        time.sleep(max(0, first_s + APART_S * STARTS + 5 - time.time()))
        delays: dict[str, list[float]] = {"submitted": [], "claimed by the agent": []}
        for name in names:
            (result,) = ask("GET", f"/v1/schedules/{name}")["results"]
            steps = ask("GET", f"/v1/jobs/{result['job_id']}")["timeline"]
            due = datetime.fromisoformat(result["due_at"])
            at = {step["state"]: datetime.fromisoformat(step["at"]) for step in reversed(steps)}
            for column, state in zip(delays.values(), ("pending", "active"), strict=True):
                column.append((at[state] - due).total_seconds() * 1000)
            ask("DELETE", f"/v1/schedules/{name}")
    print(f"median and worst of {STARTS} starts, ms after the due time")
    for what, column in delays.items():
        print(f"{what:<22} {statistics.median(column):>7.0f} {max(column):>7.0f}")
    return 0 if max(delays["claimed by the agent"]) <= MOST_MS else 1


if __name__ == "__main__":
    sys.exit(main())
