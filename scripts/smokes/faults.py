"""Steps in which something breaks or changes while a job runs."""

import json
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager

from joblane import Client
from joblane.deployment.names import lane_name, topic_name
from scripts.smokes.jobs import expect, submit
from scripts.smokes.leftovers import Aws
from scripts.smokes.runner import Failure
from scripts.smokes.site import Site, wait_for, wait_until


def poison(site: Site) -> None:
    """A message that nobody can read reaches the operators' topic."""
    mark = f"poison-{secrets.token_hex(8)}"
    sqs = site.aws("sqs")
    topic = f"arn:aws:sns:{site.region}:{site.account}:{topic_name(site.name)}"
    with subscribed(site.aws, topic) as queue:
        lane = lane_name(site.name, "default", "default")
        url = sqs.get_queue_url(QueueName=lane)["QueueUrl"]
        sqs.send_message(QueueUrl=url, MessageBody=mark)

        def is_told() -> bool:
            answer = sqs.receive_message(QueueUrl=queue, WaitTimeSeconds=1)
            return any(mark in message["Body"] for message in answer.get("Messages", []))

        wait_until("the topic told of the message", is_told, 3 * site.patience_s)


@contextmanager
def subscribed(aws: Aws, topic: str) -> Iterator[str]:
    """A queue that gets what is published to a topic, as long as this block: its URL."""
    sns, sqs = aws("sns"), aws("sqs")
    _, _, _, region, account, of = topic.split(":")
    name = f"{of}-{secrets.token_hex(4)}"  # SQS refuses a name just deleted
    url: str = sqs.create_queue(QueueName=name)["QueueUrl"]
    try:
        arn = f"arn:aws:sqs:{region}:{account}:{name}"
        statement = {
            "Effect": "Allow",
            "Principal": {"Service": "sns.amazonaws.com"},
            "Action": "sqs:SendMessage",
            "Resource": arn,
            "Condition": {"ArnEquals": {"aws:SourceArn": topic}},
        }
        policy = json.dumps({"Version": "2012-10-17", "Statement": [statement]})
        sqs.set_queue_attributes(QueueUrl=url, Attributes={"Policy": policy})
        made = sns.subscribe(
            TopicArn=topic, Protocol="sqs", Endpoint=arn, ReturnSubscriptionArn=True
        )
        try:
            yield url
        finally:
            sns.unsubscribe(SubscriptionArn=made["SubscriptionArn"])
    finally:
        sqs.delete_queue(QueueUrl=url)


def run_terminated(site: Site) -> str:
    """A job whose instance ends is run again on another one, long before its lease is over."""
    with site.client() as client:
        script = 'test "$JOBLANE_ATTEMPT" -gt 1 || sleep 600'
        job = submit(client, script, retry={"max_attempts": 2, "backoff_s": [0]})
        agent = _agent_of(site, wait_for(job, "active", timeout_s=site.patience_s).id)
        began = time.monotonic()
        site.end_instance(agent)
        expect(job.wait(site.patience_s * 10), "completed", attempt=2)
    others = {step.agent for step in job.data.timeline if step.agent}
    if len(others) < 2:
        raise Failure(f"job {job.id} ran on {others} only")
    return f"it ended {time.monotonic() - began:.0f} s later on another agent"


def run_upgraded(site: Site) -> None:
    """A job goes on while its agent is upgraded."""
    with site.client() as client:
        script = "n=0; while true; do n=$((n + 1)); echo $n; sleep 0.2; done"
        job = submit(client, script, timeout_s=3600)
        agent = _agent_of(site, wait_for(job, "active", timeout_s=site.patience_s).id)
        site.upgrade(agent)
        before = _numbers(client, job.id)[-1]
        wait_until(
            f"job {job.id} prints on",
            lambda: _numbers(client, job.id)[-1] > before,
            site.patience_s,
        )
        expect(job.refresh(), "active", epoch=1)
        client.cancel(job.id)
        expect(job.wait(site.patience_s), "cancelled", epoch=1)
        numbers = _numbers(client, job.id)
    if numbers != list(range(1, len(numbers) + 1)):
        raise Failure(f"the output of job {job.id} has gaps: {numbers}")


def _numbers(client: Client, job_id: str) -> list[int]:
    """What the counting job has printed, as far as it can be read."""
    lines = [record.text for record in client.logs(job_id) if record.stream == "stdout"]
    return [0, *map(int, "".join(map(str, lines)).split())][1:] or [0]


def _agent_of(site: Site, job_id: str) -> str:
    """The agent that runs a job, once its heartbeat has told of it."""
    found: list[str] = []

    def is_told() -> bool:
        with site.client("platform") as client:
            details = [client.agent(name) for name in site.agents()]
        found.extend(each.name for each in details if job_id in [job.id for job in each.jobs])
        return bool(found)

    wait_until(f"an agent reports job {job_id}", is_told, site.patience_s)
    return found[0]
