"""`submit --each` and `run --each`: sends the jobs of a file, a hundred in a request.

The n-th request has the idempotency key `KEY-n`. So it is repeated after a failure without a second
job, within a run and by another one with the same key, file and options; docs/decisions/1655.
"""

import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass, field
from typing import TYPE_CHECKING, Any, cast

import typer

from joblane.client.answers import JobJson
from joblane.client.batches import BATCH_BYTES, may_succeed
from joblane.client.cli import exit_codes
from joblane.client.cli.job import many
from joblane.client.cli.job.each import JobLine
from joblane.client.cli.job.lines import SHOWN
from joblane.client.cli.signals import Terminated, exit_code
from joblane.client.cli.text import terminal
from joblane.client.cli.text.formats import printable
from joblane.client.cli.text.progress_bar import bar
from joblane.client.cli.text.status_line import StatusLine
from joblane.client.errors import AnswerError, JoblaneError, RequestError

if TYPE_CHECKING:
    from joblane.client.clients import Client
    from joblane.client.fields import Submission

BATCH = 100
"""Jobs in a request."""

PAUSES_S = (1.0, 2.0, 4.0)
"""Before a request is repeated because some of its jobs were not accepted for lack of capacity."""


@dataclass
class EachSubmission:
    """Submits the jobs of a file in their order."""

    client: "Client"
    lines: Sequence[JobLine]
    key: str
    _: KW_ONLY
    again: str
    """The options with which the same command goes on after an interruption."""
    as_json: bool = False
    jobs: dict[str, int] = field(default_factory=dict)
    """Ids of accepted jobs, with the numbers of their lines."""
    accepted: int = 0
    refused: int = 0
    warnings: Counter[str] = field(default_factory=Counter)
    """What keeps all live agents from starting accepted jobs, and how many."""

    def send(self, *, prints_ids: bool) -> None:
        """Submit all; exits if the API fails, and says how to go on."""
        line = StatusLine()
        try:
            for number, batch in enumerate(_batches(self.lines), 1):
                line.show(f"{bar(self.accepted + self.refused, len(self.lines))} {self._said}")
                entries = self._send(batch, f"{self.key}-{number}")
                line.clear()
                for job, entry in zip(batch, entries, strict=True):
                    self._note(job, entry, prints_ids=prints_ids)
        except KeyboardInterrupt as error:
            line.clear()
            self._note_interrupt()
            raise typer.Exit(exit_code(error)) from None
        except JoblaneError as error:
            line.clear()
            terminal.explain(error)
            if error.retryable:
                self._note_interrupt()
            elif self.accepted:
                terminal.note(self._said)
            raise typer.Exit(exit_codes.of_error(error)) from error
        except OSError:  # the ids cannot be written, such as to a pipe whose reader has ended
            line.clear()
            self._note_interrupt()
            raise
        finally:
            line.clear()
        self._note_result()

    def _note_result(self) -> None:
        for warning, count in self.warnings.most_common(SHOWN):
            terminal.note(f"{count:,} of the jobs: {warning}")
        if self.refused > SHOWN:
            terminal.note(f"{self.refused - SHOWN:,} more were refused")
        if self.refused:
            terminal.note(f"{self._said}, {self.refused:,} were refused")

    @property
    def _said(self) -> str:
        return f"{self.accepted:,} of {len(self.lines):,} jobs submitted"

    def _note_interrupt(self) -> None:
        terminal.note(
            f"{self._said}; submit the others, and none twice, by the same command with "
            f"{self.again}"
        )

    def _send(self, batch: Sequence[JobLine], key: str) -> list[dict[str, Any]]:
        """Send a request until all of its jobs are answered for good, a few times at most."""
        submissions = [cast("Submission", line.submission) for line in batch]
        for pause_s in (*PAUSES_S, None):
            made = self.client.submit_batch(submissions, idempotency_key=key)
            entries = [entry.data.model_dump() for entry in made]
            if len(entries) != len(batch):
                raise AnswerError(f"{len(entries)} answers for {len(batch)} jobs")
            if pause_s is None or not any(map(may_succeed, entries)):
                break
            time.sleep(pause_s)
        return entries

    def _note(self, line: JobLine, entry: dict[str, Any], *, prints_ids: bool) -> None:
        job = entry.get("job")
        if isinstance(job, dict) and isinstance(job.get("id"), str):
            self.accepted += 1
            self.jobs[job["id"]] = line.number
            if job.get("warning"):
                self.warnings[str(job["warning"])] += 1
            if self.as_json:
                terminal.json_line({"line": line.number, "submitted": job})
            elif prints_ids:
                terminal.text(printable(job["id"]))
            return
        self.refused += 1
        if self.as_json:
            terminal.json_line({"line": line.number, "refused": entry})
        if self.refused <= SHOWN:
            terminal.note(f"line {line.number}: {_problem(entry)}")


def _batches(lines: Sequence[JobLine]) -> Iterator[Sequence[JobLine]]:
    """Split the jobs into requests, always in the same way."""
    batch: list[JobLine] = []
    size = 0
    for line in lines:
        if batch and (len(batch) == BATCH or size + line.size + 2 > BATCH_BYTES):
            yield batch
            batch, size = [], 0
        batch.append(line)
        size += line.size + 2
    yield batch


def _problem(entry: dict[str, Any]) -> str:
    errors = entry.get("errors")
    named = [
        f"{error.get('field')}: {error.get('problem')}"
        for error in (errors if isinstance(errors, list) else [])
        if isinstance(error, dict)
    ]
    return "; ".join(named) or str(entry.get("detail") or f"status {entry.get('status')}")


def submit_each(submission: EachSubmission) -> None:
    """`submit --each`: print the ids in the order of the lines; exit with 64 if one was refused."""
    submission.send(prints_ids=True)
    if submission.refused:
        raise typer.Exit(exit_codes.REFUSED)


def run_each(submission: EachSubmission, give_up_s: float) -> None:
    """`run --each`: wait for all jobs, name those that did not complete; 0 if all completed."""
    from dataclasses import replace

    from joblane.client.log_calls import NEWBORN_S
    from joblane.client.watch_calls import WATCH

    submission.send(prints_ids=False)
    ended, left = Counter[str](), dict.fromkeys(submission.jobs)

    def on_end(job: JobJson) -> None:
        ended[job["state"]] += 1
        del left[job["id"]]
        number = submission.jobs[job["id"]]
        if submission.as_json:
            terminal.json_line({"line": number, "ended": job})
        elif job["state"] != many.COMPLETED:
            reason = job.get("reason") or "no reason given"
            terminal.note(f"line {number}: job {job['id']} {job['state']}: {reason}")

    policy = replace(WATCH, give_up_s=give_up_s, newborn_s=NEWBORN_S)
    try:
        many.follow(submission.client, list(submission.jobs), on_end, policy=policy)
    except KeyboardInterrupt as error:
        _stop(submission, list(left), asks=not isinstance(error, Terminated))
        raise typer.Exit(exit_code(error)) from error
    except JoblaneError as error:
        terminal.explain(error)
        _continue(submission, len(left))
        raise typer.Exit(exit_codes.of_error(error)) from error
    except OSError:
        _continue(submission, len(left))
        raise
    terminal.note(many.summary(ended, len(submission.jobs)))
    if submission.refused:
        raise typer.Exit(exit_codes.REFUSED)
    if ended[many.COMPLETED] < len(submission.jobs):
        raise typer.Exit(exit_codes.NOT_ALL)


def _stop(submission: EachSubmission, left: Sequence[str], *, asks: bool) -> None:
    """Cancel the jobs that are left if the person confirms; a second Ctrl-C leaves them."""
    cancelled = 0
    try:
        if asks and terminal.can_ask():
            terminal.write(b"\n", stderr=True)
            if terminal.confirms(f"cancel the {len(left):,} jobs that have not ended"):
                for job_id in left:
                    with suppress(RequestError):  # it has ended meanwhile
                        submission.client.cancel(job_id)
                    cancelled += 1
                terminal.note(f"{cancelled:,} jobs are cancelled or had ended")
                return
    except KeyboardInterrupt:
        terminal.write(b"\n", stderr=True)  # ends the line of the question
    except JoblaneError as error:
        terminal.explain(error)
    _continue(submission, len(left) - cancelled)


def _continue(submission: EachSubmission, left: int) -> None:
    """Say that jobs continue, and how to wait for them again."""
    terminal.note(
        f"{left:,} of {len(submission.jobs):,} jobs continue; wait for all by the same command "
        f"with {submission.again}"
    )
