"""What MiniStack derives anew for each request, kept under the text that it follows from.

A policy under its text, the syntax of an expression under its text. A changed policy has another
text, so it counts at once. As the launcher, this runs under `.local/ministack-venv`.
"""

import importlib
from functools import lru_cache
from typing import Any

KEPT = 1024
"""Results of each kind that are kept: there are fewer policies and expressions than that."""


def take_shortcuts() -> None:
    """Apply both. A name that MiniStack no longer has raises an error."""
    keep_policies()
    keep_expressions()


def _module(name: str) -> Any:
    return importlib.import_module(f"ministack.{name}")


def keep_policies() -> None:
    """Parse each text of a policy once."""
    evaluator = _module("core.iam_evaluator")
    parse = evaluator.parse_policy_document
    kept = lru_cache(KEPT)(parse)  # nothing changes its results

    def parse_once(document: object) -> Any:
        return kept(document) if isinstance(document, str) else parse(document)

    evaluator.parse_policy_document = parse_once


def keep_expressions() -> None:
    """Take the text of each DynamoDB expression apart, and check its syntax, once.

    The results do not depend on the names and values that placeholders stand for.
    """
    tables = _module("services.dynamodb")
    for name in ("_tokenize", "_condition_syntax_error"):
        setattr(tables, name, lru_cache(KEPT)(getattr(tables, name)))  # nothing changes the lists
