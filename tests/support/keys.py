"""Jobs with a key in a deployment, put there without the API."""

from dataclasses import replace

from joblane.aws.key.keys import KeyStore, StoredKey
from joblane.deployment.names import table_name
from joblane.job.head import Head, make_head
from joblane.key.policy import KeyLimits
from joblane.key.segments import KeyName
from joblane.key.state import KeyState
from joblane.state.lifecycle import State
from tests.support.aws import DESCRIPTOR, NAME, Cloud
from tests.support.jobs import JOB, submission

KEY = KeyName.of("command", ["customer", "acme"])
OTHER = KeyName.of("command", ["customer", "other"])
START_MS = 1_800_000_000_000


def job(letter: str) -> str:
    """A job's id."""
    return JOB[:-1] + letter


def keys_of(aws: Cloud) -> KeyStore:
    """The keys of a deployment."""
    return KeyStore(aws.clients.make("dynamodb"), table_name(NAME, "keys"))


def stored(aws: Cloud, key: KeyName = KEY) -> StoredKey:
    """The row of a key."""
    return keys_of(aws).get("acme", key, START_MS)


def put_keyed(
    aws: Cloud,
    *,
    active: str = "",
    queued: str = "",
    limits: KeyLimits | None = None,
    key: KeyName = KEY,
    now_ms: int = START_MS - 60_000,
    **spec: object,
) -> dict[str, Head]:
    """Put a key with jobs: those with a slot are pending, the others wait. Returns them by letter.

    No message is sent. A job is named by the last letter of its id.
    """
    slots = {job(letter): 10 + number for number, letter in enumerate(active)}
    waiting = tuple(map(job, queued))
    state = KeyState(9 + len(active), slots, waiting, limits or KeyLimits(max_queued=9))
    store = keys_of(aws)
    store.write(store.get("acme", key, now_ms), state, now_ms)
    heads = {}
    for letter in active + queued:
        head = make_head(job(letter), "acme", submission(**spec), now_ms)
        head = replace(head, key=key, slot=slots.get(job(letter)))
        if letter in queued:
            step = replace(head.timeline[0], state=State.WAITING, reason="waits for its key")
            head = replace(head, state=State.WAITING, timeline=(step,))
        heads[letter] = aws.jobs.put_new(head)
    return heads


def body(**concurrency: object) -> dict[str, object]:
    """A submission with the key `KEY`."""
    return {"command": ["a"], "concurrency": {"key": ["customer", "acme"], **concurrency}}


def take_messages(aws: Cloud) -> int:
    """Take the messages of the lane `default`; returns how many there were."""
    url = DESCRIPTOR.lane_url("default", "default")
    sqs = aws.clients.make("sqs")
    return len(sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10).get("Messages", []))
