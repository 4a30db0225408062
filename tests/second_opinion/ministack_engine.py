"""Answers for MiniStack's engines of event patterns, as a program.

It runs by the Python of .local/ministack-venv, and imports nothing of ours. A request is a line of
JSON on standard input, an answer a line on standard output:

    {"rules": [...], "events": [...]}        whether each rule's pattern lets each event pass
    {"patterns": [...], "events": [...]}     the same for filters of event source mappings
"""

import json
import sys
from typing import Any

from ministack.services.eventbridge import _test_event_pattern
from ministack.services.lambda_svc import _apply_filter_criteria


def passes_rule(pattern: str, event: dict[str, Any]) -> bool:
    """What TestEventPattern answers."""
    _, _, body = _test_event_pattern({"EventPattern": pattern, "Event": json.dumps(event)})
    answer = json.loads(body)
    return bool(answer["Result"])


def passes_filter(pattern: str, event: dict[str, Any]) -> bool:
    """Whether a mapping with this filter alone calls its function with the event."""
    mapping = {"FilterCriteria": {"Filters": [{"Pattern": pattern}]}}
    return bool(_apply_filter_criteria([event], mapping))


def main() -> None:
    """Answer until the input ends."""
    while line := sys.stdin.readline():
        request = json.loads(line)
        events = request["events"]
        passes = passes_rule if "rules" in request else passes_filter
        patterns = request.get("rules") or request["patterns"]
        answers = [[passes(pattern, event) for event in events] for pattern in patterns]
        print(json.dumps(answers), flush=True)


if __name__ == "__main__":
    main()
