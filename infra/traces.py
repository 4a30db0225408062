"""Traces: the queue that feeds the span exporter, its dead letters, and the function `tracer`.

They are part of the projection stack if joblane.toml names an endpoint, so what a deployment does
not use costs nothing, and goes when joblane.toml does not name it any more.
"""

from aws_cdk import aws_sqs as sqs

from infra.function import Function, FunctionStack
from infra.lanes import new_queue
from infra.policies import PolicyGrant, delivering
from infra.secrets import reading
from joblane.config.observability import Traces
from joblane.deployment.names import traces_dead_name, traces_name
from joblane.state.secret_names import parse

ATTEMPTS = 8
"""One more than the waits of `joblane.service.trace.tracer.RETRY_S`."""

CALLS_AT_ONCE = 2
"""The least that Lambda allows: 20 messages, each with up to 5 s of jobs. They are not reserved, as
those of what must run are (docs/decisions/0956): spans may be late."""


def add_tracer(stack: FunctionStack, traces: Traces) -> None:
    """Add all of it to a stack."""
    name = stack.config.name
    dead = new_queue(stack, "TracesDead", traces_dead_name(name))
    queue = new_queue(
        stack,
        "Traces",
        traces_name(name),
        sqs.DeadLetterQueue(max_receive_count=ATTEMPTS, queue=dead),
    )
    declared = {"JOBLANE_ENDPOINT": traces.endpoint}
    if traces.headers is not None:
        declared["JOBLANE_HEADERS"] = traces.headers
    tracer = Function(
        stack,
        "tracer",
        environment={},
        declared=declared,
        grants=[
            delivering(stack.resources.traces()),
            PolicyGrant(("sqs:SendMessage",), (stack.resources.traces_dead(),)),
            *reading(stack, [] if traces.headers is None else [parse(traces.headers)]),
        ],
    )
    tracer.consume("Spans", queue.queue_arn, at_once=CALLS_AT_ONCE)
