"""The `jobs` table: every transition is one conditional UpdateItem that also writes the timeline.

The claim, the takeover and the finish are the writes on which "never two at once" rests; the
time-line of the race that each condition settles stands beside it.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, cast

from botocore.exceptions import ClientError

from joblane.head import DATA_DAYS, INLINE_SPEC_BYTES, Head, Step, with_step
from joblane.lifecycle import CLAIMABLE, TRANSITIONS, Outcome, State
from joblane.model import Submission

if TYPE_CHECKING:
    from mypy_boto3_dynamodb.client import DynamoDBClient

Item = dict[str, Any]

_HEAD = "JOB"
_DATA = "DATA"
_CONDITION_FAILED = "ConditionalCheckFailedException"
_BATCH_GET = 100  # DynamoDB's own limit on keys in a BatchGetItem


class Refused(Exception):
    """A conditional write was refused; `head` is the job as it stood, None if there is none."""

    def __init__(self, head: Head | None) -> None:
        super().__init__("no such job" if head is None else f"the job is {head.state}")
        self.head = head


@dataclass(frozen=True, slots=True)
class Facts:
    """What an attempt's end adds to its job, beside the transition."""

    outcome: Outcome
    exit_code: int | None = None
    signal: int | None = None
    usage_json: str | None = None
    next_at_ms: int | None = None
    """When a job in `retry` is tried again."""
    expires_at: int | None = None
    """Unix seconds; set when the job ended."""


class JobStore:
    """Reads and writes jobs."""

    def __init__(self, client: "DynamoDBClient", table: str) -> None:
        self._client = client
        self._table = table

    def put_new(self, head: Head) -> None:
        """Store a job that was just submitted.

        A long submission goes aside into the DATA item, which is written first: a head in the
        table always finds its data.

            function                     table                      agent
            put (answer lost)  ------->  pending
                                         active, epoch 1   <------  claim
            put again (SDK's retry)  ->  refused by the condition

        Ids are random, so whatever is there already was written by the first try.
        """
        spec = head.spec.model_dump_json(exclude_defaults=True)
        inline = len(spec.encode()) <= INLINE_SPEC_BYTES
        if not inline:
            expires = head.timeline[0].at_ms // 1000 + DATA_DAYS * 86_400
            data = {**_key(head.job_id, _DATA), "spec": {"S": spec}, "expires_at": _n(expires)}
            self._client.put_item(TableName=self._table, Item=data)
        try:
            self._client.put_item(
                TableName=self._table,
                Item=_to_item(head, spec if inline else None),
                ConditionExpression="attribute_not_exists(job_id)",
            )
        except ClientError as error:
            if error.response["Error"]["Code"] != _CONDITION_FAILED:
                raise

    def get(self, job_id: str) -> Head | None:
        """Read one job, strongly consistent, so that a submitter finds what it just submitted."""
        answer = self._client.get_item(
            TableName=self._table, Key=_key(job_id, _HEAD), ConsistentRead=True
        )
        item = answer.get("Item")
        return None if item is None else self._complete(item)

    def page(self, tenant: str, *, limit: int, before: str | None) -> tuple[list[Head], str | None]:
        """Read a tenant's jobs, newest first: at most `limit`, older than the id `before`.

        Two requests a page (keys, then a batch of heads) however long the table is. Returns
        the id to go on from, or None at the end.
        """
        request: dict[str, Any] = {
            "TableName": self._table,
            "IndexName": "by_tenant",
            "KeyConditionExpression": "tenant = :tenant",
            "ExpressionAttributeValues": {":tenant": {"S": tenant}},
            "ScanIndexForward": False,
            "Limit": limit,
        }
        if before is not None:
            request["KeyConditionExpression"] += " AND job_id < :before"
            request["ExpressionAttributeValues"][":before"] = {"S": before}
        answer = self._client.query(**request)
        ids = [row["job_id"]["S"] for row in answer["Items"]]
        found = self._batch_get([_key(job_id, _HEAD) for job_id in ids])
        aside = [_key(i["job_id"]["S"], _DATA) for i in found if "spec" not in i]
        specs = {i["job_id"]["S"]: i["spec"]["S"] for i in found if "spec" in i}
        specs |= {i["job_id"]["S"]: i["spec"]["S"] for i in self._batch_get(aside)}
        heads = {i["job_id"]["S"]: _from_item(i, specs[i["job_id"]["S"]]) for i in found}
        more = "LastEvaluatedKey" in answer and ids
        return [heads[i] for i in ids if i in heads], ids[-1] if more else None

    def claim(self, job_id: str, agent: str, now_ms: int) -> Head:
        """Take a waiting job for `agent`: one write. Raises Refused with the job as it stands.

        SQS delivers a message more than once now and then; both receivers try:

            agent A                      table                      agent B
            claim if pending|retry  -->  active, epoch 1
                                         active, epoch 1   <------  claim if pending|retry
            runs                         refused, job returned -->  gives its message back

        The condition is the state itself, so whoever comes second is refused.
        """
        states = {f":from{n}": {"S": state} for n, state in enumerate(sorted(CLAIMABLE))}
        condition = f"#state IN ({', '.join(states)})"
        return self._start(
            job_id, Step(State.ACTIVE, now_ms, 0, "claimed", agent), condition, states
        )

    def take_over(self, head: Head, agent: str, now_ms: int) -> Head:
        """Take a job whose agent's lease has ended. Raises Refused if it moved meanwhile.

            agent A (dead or cut off)    table                      agent B
            holds epoch 3                active, epoch 3
                                         active, epoch 4   <------  take over if active, epoch 3
            settle if epoch 3  ------->  refused                    runs

        Whichever of B's takeover and A's last write comes first wins; the other is refused.
        """
        step = Step(
            State.ACTIVE, now_ms, 0, f"taken over from {head.agent}, whose lease ended", agent
        )
        return self._start(head.job_id, step, *_holds(head))

    def settle(self, head: Head, step: Step, facts: Facts) -> Head:
        """End the attempt that `head` (as returned by the claim) stands for: one write.

        Conditional on the epoch: an agent that lost its lease is refused, whatever it brings.
        Raises Refused with the job as it stands.
        """
        if step.state not in TRANSITIONS[State.ACTIVE]:
            raise ValueError(f"an active job cannot become {step.state}")
        stored = {
            "outcome": facts.outcome.value,
            "exit_code": facts.exit_code,
            "term_signal": facts.signal,
            "usage_json": facts.usage_json,
            "next_at": facts.next_at_ms,
            "expires_at": facts.expires_at,
        }
        values = {
            f":{name}": {"S": value} if isinstance(value, str) else _n(value)
            for name, value in stored.items()
            if value is not None
        }
        sets = "".join(f", {name[1:]} = {name}" for name in values)
        condition, held = _holds(head)
        self._transition(
            head.job_id,
            step,
            f"SET attempt = :attempt{sets}",
            condition,
            {**values, **held, ":attempt": _n(step.attempt)},
        )
        return replace(
            with_step(head, step),
            outcome=facts.outcome,
            exit_code=facts.exit_code,
            signal=facts.signal,
            usage_json=facts.usage_json,
            next_at_ms=facts.next_at_ms,
            expires_at=facts.expires_at,
        )

    def _start(self, job_id: str, step: Step, condition: str, values: Item) -> Head:
        # Only the table knows the attempt's number, so the step is written with 0 and read
        # back as what the head counts (`_steps`).
        item = self._transition(
            job_id,
            step,
            "SET held_by = :agent REMOVE next_at ADD epoch :one, attempt :one",
            condition,
            {**values, ":agent": {"S": step.agent}, ":one": _n(1)},
        )
        return self._complete(item)

    def _transition(
        self, job_id: str, step: Step, update: str, condition: str, values: Item
    ) -> Item:
        """Write one transition and its line in the timeline. Returns the new item.

        The SDK repeats a call whose answer was lost; the second is refused by what the first
        wrote. A refusal that shows our own step at the end of the timeline is a success.
        """
        line = {"S": step.encode()}
        try:
            answer = self._client.update_item(
                TableName=self._table,
                Key=_key(job_id, _HEAD),
                UpdateExpression=update.replace(
                    "SET ", "SET #state = :to, timeline = list_append(timeline, :line), ", 1
                ),
                ConditionExpression=condition,
                ExpressionAttributeNames={"#state": "state"},
                ExpressionAttributeValues={
                    **values,
                    ":to": {"S": step.state},
                    ":line": {"L": [line]},
                },
                ReturnValues="ALL_NEW",
                ReturnValuesOnConditionCheckFailure="ALL_OLD",
            )
        except ClientError as error:
            if error.response["Error"]["Code"] != _CONDITION_FAILED:
                raise
            old = cast("Item | None", error.response.get("Item"))
            if not old:
                raise Refused(None) from error
            if old["timeline"]["L"][-1] == line:
                return old
            raise Refused(self._complete(old)) from error
        return answer["Attributes"]

    def _complete(self, item: Item) -> Head:
        """Turn an item into a head, fetching a submission that was stored aside."""
        if "spec" in item:
            return _from_item(item, item["spec"]["S"])
        answer = self._client.get_item(
            TableName=self._table,
            Key=_key(item["job_id"]["S"], _DATA),
            ConsistentRead=True,
        )
        return _from_item(item, answer["Item"]["spec"]["S"])

    def _batch_get(self, keys: list[Item]) -> list[Item]:
        found: list[Item] = []
        for start in range(0, len(keys), _BATCH_GET):
            todo: Mapping[str, Any] = {self._table: {"Keys": keys[start : start + _BATCH_GET]}}
            while todo:  # what a throttled answer leaves out comes back as unprocessed
                answer = self._client.batch_get_item(RequestItems=todo)
                found += answer["Responses"].get(self._table, [])
                todo = answer.get("UnprocessedKeys", {})
        return found


def _holds(head: Head) -> tuple[str, Item]:
    """The condition that a job is still held under the epoch of `head`."""
    condition = "#state = :active AND epoch = :epoch"
    return condition, {":active": {"S": State.ACTIVE}, ":epoch": _n(head.epoch)}


def _key(job_id: str, sk: str) -> Item:
    return {"job_id": {"S": job_id}, "sk": {"S": sk}}


def _n(value: int) -> Item:
    return {"N": str(value)}


def _to_item(head: Head, spec: str | None) -> Item:
    item: Item = {
        **_key(head.job_id, _HEAD),
        "tenant": {"S": head.tenant},
        "state": {"S": head.state},
        "epoch": _n(head.epoch),
        "attempt": _n(head.attempt),
        "timeline": {"L": [{"S": step.encode()} for step in head.timeline]},
    }
    if spec is not None:
        item["spec"] = {"S": spec}
    return item


def _from_item(item: Item, spec: str) -> Head:
    return Head(
        job_id=item["job_id"]["S"],
        tenant=item["tenant"]["S"],
        state=State(item["state"]["S"]),
        epoch=int(item["epoch"]["N"]),
        attempt=int(item["attempt"]["N"]),
        spec=Submission.model_validate_json(spec),
        timeline=tuple(_steps(entry["S"] for entry in item["timeline"]["L"])),
        agent=_text(item, "held_by"),
        outcome=Outcome(item["outcome"]["S"]) if "outcome" in item else None,
        exit_code=_number(item, "exit_code"),
        signal=_number(item, "term_signal"),
        usage_json=_text(item, "usage_json"),
        next_at_ms=_number(item, "next_at"),
        expires_at=_number(item, "expires_at"),
    )


def _steps(texts: Iterable[str]) -> Iterable[Step]:
    """Decode a timeline; a claim's attempt is one more than the step before it counted."""
    counted = 0
    for text in texts:
        step = Step.decode(text)
        if step.state is State.ACTIVE:
            step = replace(step, attempt=counted + 1)
        counted = step.attempt
        yield step


def _text(item: Item, name: str) -> str | None:
    return item[name]["S"] if name in item else None


def _number(item: Item, name: str) -> int | None:
    return int(item[name]["N"]) if name in item else None
