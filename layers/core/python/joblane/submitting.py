"""What the submission function does, over the stores it is handed; its routes are in the function.

A request that carries an Idempotency-Key is done once, see `joblane.aws.repeats`.
"""

import json
import math
import re
import secrets
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import cache
from http import HTTPStatus
from typing import Annotated

from botocore.exceptions import BotoCoreError, ClientError
from pydantic import BaseModel, ConfigDict, Field, Json

from joblane.aws.clients import Clients
from joblane.aws.jobs import JobStore, Refused
from joblane.aws.lanes import MAX_DELAY_S, LaneQueue, Lanes
from joblane.aws.logs import LogStore
from joblane.aws.operations import Gone, Operations
from joblane.aws.payloads import MAX_DATA_BYTES, PayloadLost, Payloads, is_large
from joblane.aws.repeats import Claim, Once, Repeats
from joblane.aws.search import Found, search
from joblane.aws.settings import SettingsStore
from joblane.head import Head, job_view, submitted
from joblane.ids import block_of_ids, nth_id
from joblane.job import Job
from joblane.lifecycle import State
from joblane.message import JOB_ID_PATTERN, Message
from joblane.model import Batch, Submission
from joblane.moves import NotAllowed
from joblane.names import LANES, Lane
from joblane.output import Output
from joblane.principal import AnyAccess, Principal
from joblane.problems import FieldProblem, Problem, parsed, wrong
from joblane.queries import ListJobs
from joblane.queues import UNSET, explained
from joblane.retention import PAYLOAD_START_DAYS, Retention
from joblane.secret_names import allowed
from joblane.secret_names import parse as parse_secret


class Settings(BaseModel):
    """The function's environment; a missing variable fails the cold start by its name."""

    model_config = ConfigDict(frozen=True)

    deployment: Annotated[str, Field(alias="JOBLANE_DEPLOYMENT")]
    jobs_table: Annotated[str, Field(alias="JOBLANE_JOBS_TABLE")]
    audit_table: Annotated[str, Field(alias="JOBLANE_AUDIT_TABLE")]
    log_group: Annotated[str, Field(alias="JOBLANE_LOG_GROUP")]
    bucket: Annotated[str, Field(alias="JOBLANE_BUCKET")]
    queue_url_prefix: Annotated[str, Field(alias="JOBLANE_QUEUE_URL_PREFIX")]
    queues: Annotated[Json[dict[str, tuple[str, ...]]], Field(alias="JOBLANE_QUEUES")]
    """Tenants that may submit to each queue; none listed means all."""
    default_queue: Annotated[str, Field(alias="JOBLANE_DEFAULT_QUEUE")]
    settings_table: Annotated[str, Field(alias="JOBLANE_SETTINGS_TABLE")]
    access: Annotated[Json[AnyAccess], Field(alias="JOBLANE_ACCESS")]
    retention: Annotated[Json[Retention], Field(alias="JOBLANE_RETENTION")]


PUTS_AT_ONCE = 8
"""Threads that store a batch: each waits some milliseconds for DynamoDB, a hundred times."""


class Submitter:
    """What the routes do, over the stores they are handed."""

    def __init__(
        self, settings: Settings, jobs: JobStore, clients: Clients, clock: Callable[[], float]
    ) -> None:
        self._settings = settings
        self._jobs = jobs
        self._clock = clock
        self._queues = SettingsStore(clients.make("dynamodb"), settings.settings_table)
        self._payloads = Payloads(cache(lambda: clients.make("s3")), settings.bucket)
        lanes = Lanes(clients.make("sqs"), settings.queue_url_prefix, settings.deployment)
        self._repeats = Repeats(clients.make("dynamodb"), settings.jobs_table)
        self.operations = Operations(jobs, lanes, settings.retention)
        self.output = Output(
            jobs, lambda: LogStore(clients.make("logs"), settings.log_group), clock
        )
        self._lanes = {
            (queue, lane): lanes.lane(queue, lane) for queue in settings.queues for lane in LANES
        }

    def submit(
        self, by: Principal, spec: Submission, once: Once | None, resubmit_of: str | None = None
    ) -> tuple[Head, bool]:
        """Accept one job, once: returns it, and whether it had been accepted before.

        Raises Problem 400 for a queue that it may not use, and 409 and 422 for `once`.
        """
        now_ms = self.now_ms()
        head = replace(self._judge(by, spec, _ids(now_ms), now_ms), resubmit_of=resubmit_of)
        claim = self._claim(once, head.job_id)
        if once is not None and claim.repeated:
            known = self._known(once, claim, [claim.first_id])
            if (found := known.get(claim.first_id)) is not None:
                if isinstance(found, Problem):
                    raise found
                return found, True
        head = replace(head, job_id=claim.first_id, once=once.row if once else None)
        head = self._payloads.keep(head)
        if (delay_s := _delay_s(head)) is not None:
            message = Message(job_id=head.job_id, tenant=by.tenant)
            self._lane(head).send(message, delay_s)
        put = self._jobs.put_new if resubmit_of is None else self._jobs.put_resubmitted
        return put(head), claim.repeated

    def resubmit(self, by: Principal, head: Head, once: Once | None) -> tuple[Head, bool]:
        """Submit a job that has ended again, under a new id; as `submit`.

        Raises NotAllowed for one that has not ended, or whose deadline has passed.
        """
        if not head.ended:
            raise NotAllowed(f"a job that is {head.state} cannot be resubmitted: it has not ended")
        if head.deadline_ms is not None and head.deadline_ms <= self.now_ms():
            raise NotAllowed("the job's deadline has passed; submit it with another one")
        try:
            spec = self._payloads.whole(head).spec
        except PayloadLost as lost:
            raise NotAllowed(f"what the job runs is lost: {lost}") from None
        try:
            return self.submit(by, spec, once, head.job_id)
        except Refused as refusal:
            raise Gone from refusal

    def _claim(self, once: Once | None, first_id: str) -> Claim:
        """Give a request its ids. Raises Problem 422 if its key was used with another one."""
        if once is None:
            return Claim(first_id, same=True, repeated=False)
        claim = self._repeats.claim(once, first_id, int(self._clock()))
        if not claim.same:
            raise Problem(
                HTTPStatus.UNPROCESSABLE_ENTITY,
                "this Idempotency-Key was used with another request within a day; "
                "use a new key for a new request",
            )
        return claim

    def _known(self, once: Once, claim: Claim, ids: Sequence[str]) -> dict[str, Head | Problem]:
        """What became of a request that was sent before; ids of jobs still to be made lack."""
        heads = {head.job_id: head for head in self._jobs.heads(ids, consistent=True)}
        deleted = claim.deleted
        if len(heads) < len(ids):  # deleted before they were looked for, or never made
            deleted = self._repeats.deleted(once)
        gone = Problem(HTTPStatus.CONFLICT, "the job that this key made has been deleted")
        return {**dict.fromkeys(deleted, gone), **heads}

    def submit_batch(
        self, by: Principal, batch: Batch, once: Once | None
    ) -> tuple[list[Head | Problem], bool]:
        """Accept many jobs, each judged for itself: heads and problems in the order given.

        Also returns whether the batch had been accepted before.

        All messages are sent before the first job is put, so an answer that is an error as a
        whole (503) leaves messages without jobs, which agents discard, and no job.
        """
        now_ms = self.now_ms()
        claim = self._claim(once, _ids(now_ms))
        ids = [nth_id(claim.first_id, number) for number in range(len(batch.jobs))]
        known = self._known(once, claim, ids) if once and claim.repeated else {}
        judged = [
            known.get(job_id) or self._judged(by, job, job_id, now_ms, once)
            for job_id, job in zip(ids, batch.jobs, strict=True)
        ]
        heads = [e for e in judged if isinstance(e, Head) and e.job_id not in known]
        lanes: dict[tuple[str, Lane], list[tuple[Message, int]]] = {}
        for head in heads:
            if (delay_s := _delay_s(head)) is not None:
                message = Message(job_id=head.job_id, tenant=by.tenant)
                lanes.setdefault((head.queue, head.spec.priority), []).append((message, delay_s))
        refused = {
            message.job_id
            for lane, messages in lanes.items()
            for message in self._lanes[lane].send_batch(messages)
        }
        stored = self._put_all([head for head in heads if head.job_id not in refused])
        lacking = _unavailable("was not accepted; submit it again")
        answers = [
            stored.get(entry.job_id, lacking)
            if isinstance(entry, Head) and entry.job_id not in known
            else entry
            for entry in judged
        ]
        return answers, claim.repeated

    def _judged(
        self, by: Principal, job: object, job_id: str, now_ms: int, once: Once | None
    ) -> Head | Problem:
        try:
            spec = parsed(Submission, json.dumps(job))
            head = replace(self._judge(by, spec, job_id, now_ms), once=once.row if once else None)
            return self._payloads.keep(head)
        except Problem as problem:
            return problem
        except (ClientError, BotoCoreError):
            return _unavailable("was not accepted; submit it again")

    def _judge(self, by: Principal, spec: Submission, job_id: str, now_ms: int) -> Head:
        tenant = by.tenant
        self._check_secrets(tenant, spec)
        spec = spec.model_copy(update={"queue": self._route(tenant, spec)})
        head = submitted(job_id, tenant, spec, now_ms, by.who)
        latest_ms = now_ms + PAYLOAD_START_DAYS * 86_400_000
        if head.next_at_ms is not None and head.next_at_ms > latest_ms and is_large(spec):
            problem = f"must be within {PAYLOAD_START_DAYS} days for a job that is kept in S3, "
            raise wrong("run_at", f"{problem}one of more than {MAX_DATA_BYTES} bytes")
        if not head.ended:
            return head
        return replace(head, expires_at=self._settings.retention.expires_at(head.state, now_ms))

    def _check_secrets(self, tenant: str, spec: Submission) -> None:
        deployment = self._settings.deployment
        problem = f"is not a name that this tenant may use: {allowed(deployment, tenant)}"
        foreign = [
            FieldProblem(field=f"secret_env.{variable}", problem=problem)
            for variable, reference in spec.secret_env.items()
            if not parse_secret(reference).belongs_to(deployment, tenant)
        ]
        if foreign:
            detail = f"{foreign[0].field} {problem}"
            raise Problem(HTTPStatus.BAD_REQUEST, detail, foreign)

    def _put_all(self, heads: Sequence[Head]) -> dict[str, Head | Problem]:
        def put(head: Head) -> Head | Problem:
            try:
                return self._jobs.put_new(head)
            except (ClientError, BotoCoreError):
                return _unavailable("may have been accepted all the same; look before trying again")

        with ThreadPoolExecutor(PUTS_AT_ONCE) as pool:
            return {
                head.job_id: stored
                for head, stored in zip(heads, pool.map(put, heads), strict=True)
            }

    def _lane(self, head: Head) -> LaneQueue:
        return self._lanes[head.queue, head.spec.priority]

    def delete(self, head: Head, *, exact: bool) -> None:
        """Delete a job that is not running. Raises Refused, and Gone if it is gone already.

        `exact` deletes it only as `head` shows it.
        """
        if head.once is not None and head.state is not State.ACTIVE:
            self._repeats.delete(head.once, head.job_id, int(self._clock()))
        try:
            self._jobs.delete(head.job_id, head if exact else None)
        except Refused as refusal:
            if refusal.head is None:
                raise Gone from refusal
            raise
        self._payloads.delete(head)

    def whole(self, head: Head) -> Head:
        """Return a job with its whole submission, or as it is if that is lost."""
        try:
            return self._payloads.whole(head)
        except PayloadLost:
            return head

    def job(self, tenant: str, job_id: str) -> Head:
        """Read one job; another tenant's is as absent as one that never was: Problem 404."""
        head = self.find(tenant, job_id)
        if head is None:
            raise Problem(HTTPStatus.NOT_FOUND, "there is no such job")
        return head

    def find(self, tenant: str, job_id: str) -> Head | None:
        """Read one job, None where `job` raises."""
        head = self._jobs.get(job_id) if re.match(JOB_ID_PATTERN, job_id) else None
        return None if head is None or head.tenant != tenant or self._past(head) else head

    def jobs(self, tenant: str, query: ListJobs, before: str | None) -> Found:
        """Read a page of jobs, newest first. Raises Problem 400 for a queue it may not use."""
        if query.queue is not None:
            self._require(tenant, query.queue)
        return search(self._jobs, tenant, query, before, self._clock())

    def views(self, heads: Sequence[Head], *, whole: bool = False) -> list[Job]:
        """Show jobs; one read tells whether the queues of those that wait are paused.

        `whole` shows all of their submissions, as far as the heads have them.
        """
        waiting = {head.queue for head in heads if head.state in {State.PENDING, State.RETRY}}
        found = self._queues.get_all(waiting)
        return [
            explained(job_view(head, whole=whole), found.get(head.queue, UNSET)) for head in heads
        ]

    def _route(self, tenant: str, spec: Submission) -> str:
        queue = spec.queue or self._settings.default_queue
        self._require(tenant, queue)
        return queue

    def _require(self, tenant: str, queue: str) -> None:
        open_to = [q for q, only in self._settings.queues.items() if not only or tenant in only]
        if queue not in open_to:
            raise wrong("queue", f"is unknown; this tenant may use {', '.join(open_to) or 'none'}")

    def _past(self, head: Head) -> bool:
        return head.expires_at is not None and head.expires_at <= self._clock()

    def now_ms(self) -> int:
        """The time, in Unix milliseconds."""
        return int(self._clock() * 1000)


def _ids(now_ms: int) -> str:
    """The first id of a block that a batch may count on from.

    It holds the moment of the submission, the same as the job's `created_at`: the audit trail
    reads it from the id.
    """
    return block_of_ids(now_ms, secrets.randbits(80))


def _delay_s(head: Head) -> int | None:
    """Seconds to keep a new job's message back; None for one that needs no message now."""
    if head.state is State.PENDING:
        return 0
    if head.next_at_ms is None:
        return None
    delay_s = math.ceil((head.next_at_ms - head.timeline[0].at_ms) / 1000)
    return delay_s if delay_s <= MAX_DELAY_S else None


def _unavailable(detail: str) -> Problem:
    return Problem(HTTPStatus.SERVICE_UNAVAILABLE, f"the job {detail}")
