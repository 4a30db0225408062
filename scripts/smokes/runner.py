"""Runs the steps of the smoke test in order, removes everything, and reports a line a step."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from scripts.local.progress import say
from scripts.smokes.site import Site


class Failure(Exception):
    """A step found something else than it expects: one sentence."""


@dataclass(frozen=True)
class Step:
    """One thing that the smoke test shows."""

    name: str
    proves: str
    run: Callable[[Site], str | None]
    """Raises Failure, or returns a note for the report."""
    hint: str
    """What to do next when it fails."""
    missing: str | None = None
    """What it needs that the local AWS has not got; None: it runs there too."""
    first: bool = False
    """Whether nothing after it makes sense when it fails."""
    reads: bool = False
    """Whether it changes nothing, so that nothing is removed when it fails."""


@dataclass(frozen=True)
class Outcome:
    """What became of a step."""

    step: Step
    kind: Literal["ok", "failed", "skipped", "interrupted"]
    note: str
    seconds: float = 0.0


class Smoke:
    """One run over a site."""

    def __init__(self, site: Site, steps: Sequence[Step], removal: Step) -> None:
        """`removal` is run last, once a step has begun that changes something.

        Without `steps` nothing else is run.
        """
        self._site = site
        self._steps = steps
        self._removal = removal
        self.outcomes: list[Outcome] = []

    def run(self) -> bool:
        """Run every step; returns whether none failed. An interruption is raised again at the end.

        After a failure the others are run, so that one run finds all that is wrong.
        """
        stopped: str | None = None
        try:
            for step in self._steps:
                if stopped is not None:
                    self._add(Outcome(step, "skipped", f"{stopped} failed"))
                elif step.missing is not None and self._site.local:
                    self._add(Outcome(step, "skipped", f"the local AWS has no {step.missing}"))
                elif not self._attempt(step) and step.first:
                    stopped = step.name
        finally:
            if self._has_begun():
                self._attempt(self._removal)
        return all(outcome.kind in ("ok", "skipped") for outcome in self.outcomes)

    def _has_begun(self) -> bool:
        done = [o.step for o in self.outcomes if o.kind != "skipped"]
        return not self._steps or any(not step.reads for step in done)

    def report(self) -> str:
        """Return the table, and what to do next for each failure."""
        rows = [f"{'step':<22}{'seconds':>8}  {'outcome':<12}note"]
        for outcome in self.outcomes:
            seconds = f"{outcome.seconds:.1f}" if outcome.kind != "skipped" else ""
            note = outcome.note or outcome.step.proves
            rows.append(f"{outcome.step.name:<22}{seconds:>8}  {outcome.kind:<12}{note}")
        for outcome in self.outcomes:
            if outcome.kind == "failed":
                rows += ["", f"{outcome.step.name}: {outcome.note}", f"  next: {outcome.step.hint}"]
        return "\n".join(rows)

    def _attempt(self, step: Step) -> bool:
        """Run a step and note what became of it."""
        say(f"{step.name}: {step.proves}")
        began = time.monotonic()

        def measure_s() -> float:
            return time.monotonic() - began

        try:
            note = step.run(self._site)
        except Exception as error:  # noqa: BLE001 - whatever it is, the rest is still tested
            said = " ".join(str(error).split()) or "no message"
            name = "" if isinstance(error, Failure) else f"{type(error).__name__}: "
            self._add(Outcome(step, "failed", f"{name}{said}", measure_s()))
            return False
        except BaseException:  # Ctrl-C or a signal
            self._add(Outcome(step, "interrupted", "the run was interrupted", measure_s()))
            raise
        self._add(Outcome(step, "ok", note or "", measure_s()))
        return True

    def _add(self, outcome: Outcome) -> None:
        self.outcomes.append(outcome)
        name = f"{outcome.step.name}: " if outcome.kind == "skipped" else ""
        say(f"  {name}{outcome.kind}{': ' if outcome.note else ''}{outcome.note}")
